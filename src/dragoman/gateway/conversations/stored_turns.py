"""Conversations that clients continue by id: read from the store and joined with the new request.

A conversation stays where it began. A provider of the client's own protocol may store conversations itself;
every other one is stored here, and its upstream gets the whole of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.fields import Body
from dragoman.core.model import Failure, Wire
from dragoman.gateway.conversations.conversations import ConversationTable, LockedConversation
from dragoman.gateway.conversations.store import ChainTooLarge, LazyStore, StoredTurn, StoreError
from dragoman.gateway.conversations.turn_writer import STORE_RETRY, TurnWriter, stores_turns
from dragoman.gateway.large_bodies import run_for
from dragoman.gateway.request import GatewayRequest, InspectedRequest, RoutedRequest
from dragoman.gateway.upstreams.routing import Target
from dragoman.serving.conversations import ConversationError, PastTurn, StorageRequest, TurnCodec

Targets = tuple[Target, ...]
_NOT_IN_BACKGROUND = Failure("bad_request", "conversation: not together with background", 400)
_NOT_OVER_WEBSOCKET = Failure("bad_request", "background: a WebSocket has no background responses", 400)
UNREADABLE = Failure(
    "overloaded", "the store of conversations cannot be read now", 503, retry_after=STORE_RETRY
)


class StoredTurns:
    """`report` is called when the store fails. `limit`: most bytes of a request and all that it continues."""

    def __init__(
        self, store: LazyStore, report: Callable[[StoreError], object], limit: int = sys.maxsize
    ) -> None:
        self.store, self._report, self._limit = store, report, limit
        self.conversations = ConversationTable(store, limit)

    async def prepare(
        self, request: InspectedRequest, targets: Targets, codec: TurnCodec, storage: StorageRequest
    ) -> RoutedRequest:
        """The request joined with the stored turns that it continues, for the targets that may answer it, and
        with the writer of its own turn. Raises ConversationError where no target can."""
        arrived = request.arrived
        history = await self._history(arrived, targets, storage)
        try:
            if storage.item_ids and history.is_known:
                history.items = await self._items(request, codec, storage)
            if not history.is_complete(storage):
                return _routed(request, _targets_that_store(arrived, codec, storage, targets, history.items))
            if storage.background and _runs_here(arrived, targets):
                if arrived.lane:
                    raise ConversationError(_NOT_OVER_WEBSOCKET)
                return _routed(request, targets, deferred=True)
            return await self._join(request, targets, codec, storage, history)
        except BaseException:
            if history.lock:
                await history.lock.release()
            raise

    async def _history(self, request: GatewayRequest, targets: Targets, storage: StorageRequest) -> _History:
        """The turns that the request continues, from its connection, from the store, or as a conversation."""
        lane, previous = request.lane, storage.previous_id
        history = _History(lane.get(previous) if lane else None)
        if history.held:
            history.turns = [_past(history.held)]
        elif previous:
            history.turns = await self.past(request.client.name, request.owner, previous)
        if lane:
            lane.previous_id = previous
        if storage.conversation:
            if storage.background and _runs_here(request, targets):
                raise ConversationError(_NOT_IN_BACKGROUND)
            conversation = await self._conversation(request, storage.conversation)
            if conversation:
                history.turns = [PastTurn("", conversation.items, {}, {})]
                history.lock = conversation if conversation.is_locked else None
            history.is_known = conversation is not None
        return history

    async def _join(
        self,
        request: InspectedRequest,
        targets: Targets,
        codec: TurnCodec,
        storage: StorageRequest,
        history: _History,
    ) -> RoutedRequest:
        arrived, given = request.arrived, request.body
        lane, run, turns, items = arrived.lane, arrived.background_run, history.turns, history.items
        stores = storage.store or lane or run or history.lock
        if not (stores or turns or items) and codec.join(given.glance, (), {}) is given.glance:
            return _routed(request, targets)
        size = len(given.data) + sum(turn.size for turn in turns)
        wire = given.wire
        body = await run_for(size, _joined, request, codec, turns, items)
        is_whole = turns or not (storage.previous_id or storage.conversation or storage.item_ids)
        if lane and is_whole and (failure := codec.unanswered(body.wire)):
            raise ConversationError(failure)
        if not stores or arrived.route.action != "generate":
            return _routed(request, targets, body)
        if storage.required and self.store.is_away:
            await self.store.check()  # before a model is asked and paid for what cannot be kept
        writer = (run.turn_writer if run else TurnWriter)(
            codec,
            self.store,
            arrived.owner,
            arrived.client,
            storage,
            codec.new_items(body.wire if history.held else codec.join(wire, (), items)),
            wire,
            body,
            self._report,
            None if history.held else storage.previous_id or None,
            lane,
            history.lock,
        )
        return _routed(request, targets, turn_writer=writer, conversation=history.lock)

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

    async def _conversation(self, request: GatewayRequest, id: str) -> LockedConversation | None:
        """The conversation that a request belongs to; None where it is not stored here. It is locked while a
        reply to it is generated."""
        codec, table, owner = request.protocol_server.conversations, self.conversations, request.owner
        if codec is None or await table.get(owner, id) is None:
            return None
        generates = request.route.action == "generate"
        if generates and not await table.lock(owner, id, request.record.id):
            raise ConversationError(codec.locked)
        holder = request.record.id if generates else ""
        conversation = LockedConversation(table, codec, owner, id, holder, self._report)
        try:
            conversation.items = await table.items(owner, id) or []
        except BaseException as error:
            await conversation.release()
            if isinstance(error, ChainTooLarge):
                raise ConversationError(Failure("bad_request", str(error), 400)) from None
            raise
        return conversation

    async def _items(
        self, request: InspectedRequest, codec: TurnCodec, storage: StorageRequest
    ) -> dict[str, Wire]:
        """The stored items that a request refers to. Each reference becomes a copy of its item, so together
        they are bounded before the request is built."""
        found: dict[str, Wire] = {}
        size = len(request.body.data)
        for id, count in Counter(storage.item_ids).items():
            turn = await self.store.find(request.arrived.owner, id)
            if turn and turn.protocol == request.arrived.client.name:
                past = _past(turn)
                if item := codec.items_by_id(past.items, past.reply).get(id):
                    found[id] = item
                    size += count * len(jsontext.encode(item))
                    if size > self._limit:
                        problem = f"the request and its item references have more than {self._limit} bytes"
                        raise ConversationError(Failure("bad_request", problem, 400))
        return found


class _History(Struct):
    """What a request continues. `held`: the turn that its connection remembers. `lock`: the conversation that
    its own turn is added to. `is_known`: False where the conversation that it names is not stored here."""

    held: StoredTurn | None
    turns: list[PastTurn] = []
    items: dict[str, Wire] = {}  # that the request refers to, by their ids
    lock: LockedConversation | None = None
    is_known: bool = True

    def is_complete(self, storage: StorageRequest) -> bool:
        """Whether all that the request refers to is stored here."""
        if not self.is_known or (storage.previous_id and not self.turns):
            return False
        return len(self.items) == len(set(storage.item_ids))


def _routed(
    request: InspectedRequest,
    targets: Targets,
    body: Body | None = None,
    turn_writer: TurnWriter | None = None,
    conversation: LockedConversation | None = None,
    deferred: bool = False,
) -> RoutedRequest:
    return RoutedRequest(
        request.arrived,
        body or request.body,
        request.model,
        request.stream,
        request.compaction,
        targets,
        turn_writer,
        conversation,
        deferred,
    )


def _joined(
    request: InspectedRequest, codec: TurnCodec, past: Sequence[PastTurn], items: Mapping[str, Wire]
) -> Body:
    wire = codec.join(request.body.wire, past, items)
    if wire is request.body.wire:
        return request.body
    return Body(jsontext.encode(wire), request.arrived.client.name, wire=wire)


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
