"""Conversations that clients continue by id: read from the store and joined with the new request.

A conversation stays where it began. A provider of the client's own protocol may store conversations itself;
every other one is stored here, and its upstream gets the whole of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dragoman.core import jsontext
from dragoman.core.conversations import ConversationError, PastTurn, StorageRequest, TurnCodec
from dragoman.core.fields import Body
from dragoman.core.model import Failure, Wire
from dragoman.gateway.conversations.conversations import ConversationTable, LockedConversation
from dragoman.gateway.conversations.store import ChainTooLarge, LazyStore, StoredTurn, StoreError
from dragoman.gateway.conversations.turn_writer import TurnWriter, stores_turns
from dragoman.gateway.large_bodies import run_for
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import Target

Targets = tuple[Target, ...]
_NOT_IN_BACKGROUND = Failure("bad_request", "conversation: not together with background", 400)
_NOT_OVER_WEBSOCKET = Failure("bad_request", "background: a WebSocket has no background responses", 400)
UNREADABLE = Failure("overloaded", "the store of conversations cannot be read now", 503)


class StoredTurns:
    """`report` is called when the store fails. `limit`: most bytes of a request and all that it continues."""

    def __init__(
        self, store: LazyStore, report: Callable[[StoreError], object], limit: int = sys.maxsize
    ) -> None:
        self.store, self._report, self._limit = store, report, limit
        self.conversations = ConversationTable(store, limit)

    async def prepare(
        self, request: GatewayRequest, targets: Targets, codec: TurnCodec, storage: StorageRequest
    ) -> Targets:
        """Joins the request with the stored turns that it continues, and sets the writer of its own turn.

        Returns the targets that may answer it; raises ConversationError where none can.
        """
        lane, previous = request.lane, storage.previous_id
        held = lane.get(previous) if lane else None
        past = [_past(held)] if held else list[PastTurn]()
        if previous and not held:
            past = await self.past(request.client.name, request.owner, previous)
        if lane:
            lane.previous_id = previous
        if storage.conversation:
            if storage.background and _runs_here(request, targets):
                raise ConversationError(_NOT_IN_BACKGROUND)
            conversation = await self._locked(request, storage.conversation)
            if conversation is None:
                return _targets_that_store(request, codec, storage, targets, {})
            past = [PastTurn("", conversation.items, {}, {})]
        items = await self._items(request, codec, storage) if storage.item_ids else dict[str, Wire]()
        if (previous and not past) or len(items) < len(set(storage.item_ids)):
            return _targets_that_store(request, codec, storage, targets, items)
        if storage.background and _runs_here(request, targets):
            if lane:
                raise ConversationError(_NOT_OVER_WEBSOCKET)
            request.deferred = True
            return targets
        run, seen = request.background_run, request.body.glance
        stores = storage.store or lane or run or request.conversation
        if not (stores or past or items) and codec.join(seen, (), {}) is seen:
            return targets
        given = request.body.wire
        size = len(request.body.data) + sum(turn.size for turn in past)
        body = await run_for(size, _joined, request, codec, past, items)
        if lane and past and (failure := codec.unanswered(body.wire)):
            raise ConversationError(failure)
        if not stores or request.route.action != "generate":
            request.body = body
            return targets
        new_items = codec.new_items(body.wire if held else codec.join(given, (), items))
        request.turn_writer = (run.turn_writer if run else TurnWriter)(
            codec,
            self.store,
            request.owner,
            request.client,
            storage,
            new_items,
            given,
            body,
            self._report,
            None if held else previous or None,
            lane,
            request.conversation,
        )
        return targets

    async def past(self, protocol: str, owner: str, id: str) -> list[PastTurn]:
        """The turns up to `id`, oldest first; empty where it is not stored here."""
        try:
            turns = await self.store.chain(owner, id, self._limit)
        except ChainTooLarge as error:
            raise ConversationError(Failure("bad_request", str(error), 400)) from None
        if not turns or turns[-1].protocol != protocol:
            return []
        return await run_for(sum(turn.size for turn in turns), lambda: [_past(turn) for turn in turns])

    async def reply(self, protocol: str, owner: str, id: str) -> Wire | None:
        turn = await self.store.get(owner, id)
        return _past(turn).reply if turn and turn.protocol == protocol else None

    async def delete(self, owner: str, id: str) -> bool:
        return await self.store.delete(owner, id)

    async def _locked(self, request: GatewayRequest, id: str) -> LockedConversation | None:
        """The conversation that a request belongs to; None where it is not stored here."""
        codec, table, owner = request.protocol_server.conversations, self.conversations, request.owner
        if codec is None or await table.get(owner, id) is None:
            return None
        generates = request.route.action == "generate"
        if generates and not await table.lock(owner, id, request.record.id):
            raise ConversationError(codec.locked)
        conversation = LockedConversation(table, codec, owner, id, request.record.id if generates else "")
        request.conversation = conversation if generates else None  # which unlocks it in the end
        try:
            conversation.items = await table.items(owner, id) or []
        except ChainTooLarge as error:
            raise ConversationError(Failure("bad_request", str(error), 400)) from None
        return conversation

    async def _items(
        self, request: GatewayRequest, codec: TurnCodec, storage: StorageRequest
    ) -> dict[str, Wire]:
        """The stored items that a request refers to. Each reference becomes a copy of its item, so together
        they are bounded before the request is built."""
        found: dict[str, Wire] = {}
        size = len(request.body.data)
        for id, count in Counter(storage.item_ids).items():
            turn = await self.store.find(request.owner, id)
            if turn and turn.protocol == request.client.name:
                past = _past(turn)
                if item := codec.items_by_id(past.items, past.reply).get(id):
                    found[id] = item
                    size += count * len(jsontext.encode(item))
                    if size > self._limit:
                        problem = f"the request and its item references have more than {self._limit} bytes"
                        raise ConversationError(Failure("bad_request", problem, 400))
        return found


def _joined(
    request: GatewayRequest, codec: TurnCodec, past: Sequence[PastTurn], items: Mapping[str, Wire]
) -> Body:
    wire = codec.join(request.body.wire, past, items)
    if wire is request.body.wire:
        return request.body
    return Body(jsontext.encode(wire), request.client.name, wire=wire)


def _targets_that_store(
    request: GatewayRequest,
    codec: TurnCodec,
    storage: StorageRequest,
    targets: Targets,
    items: Mapping[str, Wire],
) -> Targets:
    """Those of `targets` that may have stored the conversation themselves: they get the request as it is."""
    able = tuple(target for target in targets if stores_turns(request.client.name, target.provider))
    if able and not items:
        return able
    if storage.conversation and request.protocol_server.conversations:
        raise ConversationError(request.protocol_server.conversations.unknown(storage.conversation))
    missing = [id for id in storage.item_ids if id not in items]
    raise ConversationError(
        codec.unknown_item(missing[0]) if missing else codec.unknown_conversation(storage.previous_id)
    )


def _runs_here(request: GatewayRequest, targets: Targets) -> bool:
    """Unless every target runs requests of this protocol in the background itself."""
    native = all(stores_turns(request.client.name, target.provider) for target in targets)
    return request.route.action == "generate" and not native


def _past(turn: StoredTurn) -> PastTurn:
    try:
        items, reply, settings = (jsontext.decode(text) for text in (turn.items, turn.reply, turn.settings))
    except ValueError:  # the file is damaged
        raise ConversationError(UNREADABLE) from None
    return PastTurn(turn.id, items, reply, settings, turn.size)
