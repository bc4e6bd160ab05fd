"""Conversations that clients continue by id: read from the store and joined with the new request.

A conversation stays where it began. A provider of the client's own protocol may store conversations itself;
every other one is stored here, and its upstream gets the whole of it.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.fields import Body
from dragoman.core.model import Failure, Wire
from dragoman.gateway.conversations.conversations import ConversationTable, LockedConversation
from dragoman.gateway.conversations.store import ChainTooLarge, LazyStore, StoredTurn, StoreError
from dragoman.gateway.conversations.turn_writer import STORE_RETRY, NewTurn, TurnWriter, stores_turns
from dragoman.gateway.large_bodies import hold, run_for
from dragoman.gateway.request import GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.routing import Target
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.serving.conversations import ConversationError, PastTurn, StorageRequest, TurnCodec

Targets = tuple[Target, ...]
_NOT_IN_BACKGROUND = Failure("bad_request", "conversation: not together with background", 400)
_MOST_UNMEASURED = 2  # turns that are read at a time before their size is known
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
        self._unmeasured = asyncio.Semaphore(_MOST_UNMEASURED)

    async def prepare(
        self, request: RoutedRequest, codec: TurnCodec, storage: StorageRequest
    ) -> RoutedRequest:
        """The request joined with the stored turns that it continues, for the targets that may answer it, and
        with the writer of its own turn. Raises ConversationError where no target can."""
        arrived, targets = request.arrived, request.targets
        history = await self._history(arrived, targets, storage)
        try:
            if storage.item_ids and history.is_known:
                history.items = await self._items(request, codec, storage)
            if not history.is_complete(storage):
                return replace(request, targets=_targets_that_store(request, codec, storage, history.items))
            if storage.background and _runs_here(arrived, targets):
                if arrived.lane:
                    raise ConversationError(_NOT_OVER_WEBSOCKET)
                return replace(request, deferred=True)
            return await self._continue(request, codec, storage, history)
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
            history.turns = await self.past(request, previous)
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

    async def _continue(
        self, request: RoutedRequest, codec: TurnCodec, storage: StorageRequest, history: _History
    ) -> RoutedRequest:
        arrived, given, turns, items = request.arrived, request.body, history.turns, history.items
        stores = arrived.route.action == "generate" and bool(
            storage.store or arrived.lane or arrived.background_run or history.lock
        )
        if not (stores or turns or items) and codec.join(given.glance, (), {}) is given.glance:
            return request
        body = await run_for(len(given.data) + history.size, _join, request, codec, turns, items)
        if arrived.lane and (turns or not storage.item_ids):
            _refuse_unanswered(codec, body.wire)
        if not stores:
            return replace(request, body=body)
        if storage.required and self.store.is_away:
            await self.store.check()  # before a model is asked and paid for what cannot be kept
        writer = self._writer(request, codec, storage, history, body)
        return replace(request, turn_writer=writer, conversation=history.lock)

    def _writer(
        self,
        request: RoutedRequest,
        codec: TurnCodec,
        storage: StorageRequest,
        history: _History,
        body: Body,
    ) -> TurnWriter:
        """A turn that its connection remembers is stored whole: the turns before it may not be stored."""
        arrived, given = request.arrived, request.body.wire
        new = body.wire if history.held else codec.join(given, (), history.items)
        previous = None if history.held else storage.previous_id or None
        turn = NewTurn(arrived, codec, storage, given, body, codec.new_items(new), previous, history.lock)
        run = arrived.background_run
        return (run.turn_writer if run else TurnWriter)(turn, self.store, self._report)

    async def past(self, request: GatewayRequest, id: str) -> list[PastTurn]:
        """The turns up to `id`, oldest first; empty where it is not stored here. What is read from the store
        counts in the memory of the request, as if it had come in its body."""
        reserve = partial(_reserve, request)
        try:
            turns = await self.store.chain(request.owner, id, self._limit, reserve)
        except ChainTooLarge as error:
            raise ConversationError(Failure("bad_request", str(error), 400)) from None
        if not turns or turns[-1].protocol != request.client.name:
            return []
        return await run_for(sum(turn.size for turn in turns), lambda: [_past(turn) for turn in turns])

    async def reply(self, request: GatewayRequest, id: str) -> Wire | None:
        async with self._unmeasured:
            turn = await self.store.get(request.owner, id)
            return (await _read_past(request, turn)).reply if turn and _is_of(turn, request) else None

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
            reserve = partial(_reserve, request)
            conversation.items = await table.items(owner, id, reserve) or []
        except BaseException as error:
            await conversation.release()
            if isinstance(error, ChainTooLarge):
                raise ConversationError(Failure("bad_request", str(error), 400)) from None
            raise
        return conversation

    async def _items(
        self, request: RoutedRequest, codec: TurnCodec, storage: StorageRequest
    ) -> dict[str, Wire]:
        """The stored items that a request refers to. Each reference becomes a copy of its item, so together
        they are bounded before the request is built."""
        found: dict[str, Wire] = {}
        size = len(request.body.data)
        for id, count in Counter(storage.item_ids).items():
            async with self._unmeasured:
                turn = await self.store.find(request.arrived.owner, id)
                past = turn and _is_of(turn, request.arrived) and await _read_past(request.arrived, turn)
            if past and (item := codec.items_by_id(past.items, past.reply).get(id)):
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

    @property
    def size(self) -> int:
        """Bytes of the turns."""
        return sum(turn.size for turn in self.turns)

    def is_complete(self, storage: StorageRequest) -> bool:
        """Whether all that the request refers to is stored here."""
        if not self.is_known or (storage.previous_id and not self.turns):
            return False
        return len(self.items) == len(set(storage.item_ids))


def _join(
    request: RoutedRequest, codec: TurnCodec, past: Sequence[PastTurn], items: Mapping[str, Wire]
) -> Body:
    wire = codec.join(request.body.wire, past, items)
    if wire is request.body.wire:
        return request.body
    return Body(jsontext.encode(wire), request.arrived.client.name, wire=wire)


def _refuse_unanswered(codec: TurnCodec, wire: Wire) -> None:
    if failure := codec.unanswered(wire):
        raise ConversationError(failure)


def _targets_that_store(
    request: RoutedRequest, codec: TurnCodec, storage: StorageRequest, items: Mapping[str, Wire]
) -> Targets:
    """Those that may have stored the conversation themselves: they get the request as it is."""
    client, server = request.arrived.client.name, request.arrived.protocol_server
    able = tuple(target for target in request.targets if stores_turns(client, target.provider))
    if able and not items:
        return able
    if storage.conversation and server.conversations:
        raise ConversationError(server.conversations.unknown(storage.conversation))
    missing = [id for id in storage.item_ids if id not in items]
    raise ConversationError(
        codec.unknown_item(missing[0]) if missing else codec.unknown_conversation(storage.previous_id)
    )


def _runs_here(request: GatewayRequest, targets: Targets) -> bool:
    """Unless every target runs requests of this protocol in the background itself."""
    native = all(stores_turns(request.client.name, target.provider) for target in targets)
    return request.route.action == "generate" and not native


def _is_of(turn: StoredTurn, request: GatewayRequest) -> bool:
    return turn.protocol == request.client.name


def _reserve(request: GatewayRequest, size: int) -> None:
    hold(request.incoming, BODY_WEIGHT * size)


async def _read_past(request: GatewayRequest, turn: StoredTurn) -> PastTurn:
    _reserve(request, turn.size)
    return await run_for(turn.size, _past, turn)


def _past(turn: StoredTurn) -> PastTurn:
    try:
        items, reply, settings = (jsontext.decode(text) for text in (turn.items, turn.reply, turn.settings))
    except ValueError:  # the file is damaged
        raise ConversationError(UNREADABLE) from None
    return PastTurn(turn.id, items, reply, settings, turn.size)
