"""Conversations that clients leave at the server: found in the store, joined with what is new, and kept.

A conversation goes on where it began. One that a provider of the client's own protocol stores is left to it;
every other one is kept here, and its upstream gets it whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from dragoman.core import jsontext
from dragoman.core.body import Body
from dragoman.core.model import Failure, Wire
from dragoman.core.stored_turns import ConversationError, PastTurn, StorageRequest, TurnCodec
from dragoman.gateway.conversations.store import Store, StoredTurn, StoreError
from dragoman.gateway.conversations.turn_writer import TurnWriter, stores_turns
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import Target

T = TypeVar("T")
Targets = tuple[Target, ...]
UNREADABLE = Failure("overloaded", "the store of conversations cannot be read now", 503)


class StoredTurns:
    """What exchanges with a store share. `report` is told what the store could not do."""

    def __init__(self, store: Store, report: Callable[[StoreError], object]) -> None:
        self.store, self._report = store, report

    async def prepare(self, request: GatewayRequest, targets: Targets) -> Targets:
        """Joins the request with the stored turns that it continues, and sets the writer of its own turn.

        Returns the targets that may answer it; raises ConversationError where none can.
        """
        _refuse_stateful(request, targets)
        kept = request.protocol_server.kept
        wish = kept.wish(request.body.glance) if kept else None
        if kept is None or wish is None:
            return targets
        before = await self.past(request.client.name, request.owner, wish.continues)
        found = await self._items(request, kept, wish.refers)
        if (wish.continues and not before) or len(found) < len(set(wish.refers)):
            return _left_to(request, kept, wish, targets, found)
        given = request.body.wire
        wire = kept.join(given, before, found)
        body = request.body if wire is given else Body(jsontext.encode(wire), request.client.name, wire=wire)
        if not wish.stores or request.route.action != "generate":
            request.body = body
            return targets
        items = kept.items(kept.join(given, (), found))
        request.turn_writer = TurnWriter(
            kept, self.store, request.owner, request.client, wish, items, given, body, self._report
        )
        return targets

    async def past(self, protocol: str, owner: str, id: str) -> list[PastTurn]:
        """The turns up to `id`; none where it is not kept here."""
        if not id:
            return []
        turns = await self._read(self.store.chain(owner, id))
        return [_past(turn) for turn in turns] if turns and turns[-1].protocol == protocol else []

    async def reply(self, protocol: str, owner: str, id: str) -> Wire | None:
        turn = await self._read(self.store.get(owner, id))
        return _past(turn).reply if turn and turn.protocol == protocol else None

    async def delete(self, owner: str, id: str) -> bool:
        return await self._read(self.store.delete(owner, id))

    async def _items(self, request: GatewayRequest, kept: TurnCodec, names: Sequence[str]) -> dict[str, Wire]:
        """The items of earlier turns that a request names, as far as they are kept here."""
        found: dict[str, Wire] = {}
        for name in dict.fromkeys(names):
            turn = await self._read(self.store.find(request.owner, name))
            if turn and turn.protocol == request.client.name:
                past = _past(turn)
                item = kept.named(past.items, past.reply).get(name)
                found |= {name: item} if item else {}
        return found

    async def _read(self, reading: Awaitable[T]) -> T:
        try:
            return await reading
        except StoreError as error:
            self._report(error)
            raise ConversationError(UNREADABLE) from None


def _left_to(
    request: GatewayRequest,
    kept: TurnCodec,
    wish: StorageRequest,
    targets: Targets,
    found: Mapping[str, Wire],
) -> Targets:
    """Those of `targets` that may know what the store does not: they get the request as it is."""
    able = tuple(target for target in targets if stores_turns(request.client.name, target.provider))
    if able and not found:
        return able
    missing = [name for name in wish.refers if name not in found]
    raise ConversationError(kept.absent(missing[0]) if missing else kept.unknown(wish.continues))


def _refuse_stateful(request: GatewayRequest, targets: Targets) -> None:
    """What only an upstream of the client's own protocol can do."""
    protocol = request.client.name
    for field, code in request.protocol_server.stateful.items():
        if request.body.glance.get(field) and not all(
            target.provider.forwards(protocol) for target in targets
        ):
            problem = f"{field}: only {protocol} providers can do that, and this model leads elsewhere"
            raise ConversationError(Failure("bad_request", problem, 400, code))


def _past(turn: StoredTurn) -> PastTurn:
    items, reply, settings = (jsontext.decode(text) for text in (turn.items, turn.reply, turn.settings))
    return PastTurn(turn.id, items, reply, settings)
