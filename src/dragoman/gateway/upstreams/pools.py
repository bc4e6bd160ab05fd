"""Targets that share the requests: weighted round-robin, rests for accounts that fail, and session affinity.

A pool is several targets with one provider, each with a credential of it. The targets of a request come in
groups, which are tried in order. Within a group of several:

    a session stays with its account   prompt caches and opaque state belong to an account
    a new one                          goes where the weights say, among those that do not rest
    an account refuses (401, 402, 429) it rests for as long as the answer says, else longer each time; the
                                       session moves to another one and stays there
    all rest                           the one whose rest ends first is asked all the same
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby

from msgspec import Struct

from dragoman.core.model import Failure, FailureKind
from dragoman.gateway.request import RoutedRequest
from dragoman.gateway.upstreams.affinity import Affinity, session_of
from dragoman.gateway.upstreams.balancing import WeightedRoundRobin
from dragoman.gateway.upstreams.routing import Target

# Seconds of the first rest where the answer says nothing; it doubles with each refusal in a row
RESTS: dict[FailureKind, float] = {
    "rate_limit": 5.0,
    "overloaded": 5.0,
    "unauthenticated": 60.0,
    "forbidden": 60.0,
    "billing": 60.0,
}
_LONGEST_REST = 3600.0
_MOST_ROUND_ROBINS = 1000


class _Rest(Struct):
    until: float = 0.0
    refusals: int = 0


class Pools:
    """What all requests share. `report` gets a line when an account begins to rest: its name, not its key."""

    def __init__(
        self,
        affinity: Affinity,
        report: Callable[[str], object] = bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._affinity, self._report, self._now = affinity, report, now
        self._rests: dict[str, _Rest] = {}
        self._robins: dict[tuple[tuple[str, float], ...], WeightedRoundRobin[str]] = {}

    async def order(self, targets: Sequence[Target], request: RoutedRequest | None = None) -> list[Target]:
        """The targets in the order in which they are tried."""
        order: list[Target] = []
        for number, grouped in groupby(targets, key=lambda target: target.group):
            group = list(grouped)
            if len(group) > 1:
                session = session_of(request, number) if request else ""
                group = await self._order_group(group, session)
            order += group
        return order

    async def _order_group(self, group: list[Target], session: str) -> list[Target]:
        resting: dict[str, float] = {}
        if self._rests:
            resting = {each.id: rest.until for each in group if (rest := self._resting(each))}
        kept = await self._affinity.target(session) if session else ""
        is_known = kept in [each.id for each in group]
        robin = self._robin(group)
        if not is_known or kept in resting:
            kept = robin.take(resting) or min(resting, key=resting.__getitem__)
            if session:
                await self._affinity.assign(session, kept)
        # those that rest come last, the shortest rest first
        return sorted(group, key=lambda it: (it.id != kept, resting.get(it.id, 0.0), robin.rank(it.id)))

    def note_failure(self, target: Target, failure: Failure, unsent: bool = False) -> None:
        """The account of `target` refused a request, or `unsent`: there is no credential for it."""
        busy = failure.kind == "overloaded" and failure.retry_after is None  # the provider, not the account
        if failure.kind not in RESTS or (busy and not unsent):
            return
        rest = self._rests.setdefault(target.account, _Rest())
        rest.refusals += 1
        seconds = failure.retry_after
        if seconds is None:
            seconds = min(RESTS[failure.kind] * 2 ** min(rest.refusals - 1, 20), _LONGEST_REST)
        rest.until = self._now() + seconds
        why = failure.message if unsent else failure.kind
        self._report(f"{target.account} is paused for {seconds:.0f} s: {why}")

    def soonest(self, targets: Sequence[Target], within: float) -> tuple[Target, float] | None:
        """Of accounts that rest, the one whose rest ends first, and in how many seconds, at most `within`."""
        resting = [each for each in targets if each.shared and each.account in self._rests]
        if not resting:
            return None
        target = min(resting, key=lambda each: self._rests[each.account].until)
        wait = max(self._rests[target.account].until - self._now(), 0.0)
        return (target, wait) if wait <= within else None

    async def note_answer(self, target: Target, request: RoutedRequest, first: Target) -> None:
        """The session stays with the target that answered; `first` was asked before the others."""
        if self._rests:
            self._rests.pop(target.account, None)
        if target is not first:
            group = [each for each in request.targets if each.group == target.group]
            self._robin(group).count(target.id)
            await self._affinity.assign(session_of(request, target.group), target.id)

    def _resting(self, target: Target) -> _Rest | None:
        rest = self._rests.get(target.account)
        return rest if rest and rest.until > self._now() else None

    def _robin(self, group: list[Target]) -> WeightedRoundRobin[str]:
        key = tuple([(each.id, each.weight) for each in group])
        robin = self._robins.get(key)
        if robin is None:
            if len(self._robins) >= _MOST_ROUND_ROBINS:  # patterns make as many as clients have names
                self._robins.clear()
            robin = self._robins[key] = WeightedRoundRobin(key)
        return robin
