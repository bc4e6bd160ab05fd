"""A provider that speaks several protocols: which one a request takes. For gateway, client and `plan`.

first surface --nothing is lost------> sent
              --something is lost----> all are translated, the one with the least loss is sent
sent          --404------------------> the next one; that answers: this one is not asked again
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from dragoman.core.losses import Losses

At = TypeVar("At")
Made = TypeVar("Made")
Answer = TypeVar("Answer")
Damage = tuple[int, int, int]
_NOTHING: Damage = (0, 0, 0)


class LeastLoss(Generic[Made]):
    """`best`: of what a request became at each surface, the first with the least damage."""

    best: Made

    def __init__(self) -> None:
        self._least: Damage | None = None

    def offer(self, made: Made, losses: Losses) -> bool:
        """Whether nothing is lost there, so that the others need not be looked at."""
        damage = losses.damage()
        if self._least is None or damage < self._least:
            self.best, self._least = made, damage
        return self._least == _NOTHING


def present(surfaces: Sequence[At], missing: set[str], protocol_of: Callable[[At], str]) -> Sequence[At]:
    """Without those that the server turned out not to have, unless it has none."""
    return [each for each in surfaces if protocol_of(each) not in missing] or surfaces


async def ask_until_found(
    chosen: At, surfaces: Iterable[At], ask: Callable[[At], Awaitable[Answer]]
) -> tuple[At, Answer]:
    """The surface that answered, and its answer. What `ask` raises has a `failure`.

    A server without the path says 404, and so does one without the model: then the others do so too, and the
    first failure is raised.
    """
    try:
        return chosen, await ask(chosen)
    except Exception as error:
        if not _is_missing(error):
            raise
        failed = error
    try:
        for surface in surfaces:
            if surface is chosen:
                continue
            try:
                return surface, await ask(surface)
            except Exception as error:
                if not _is_missing(error):
                    raise
        raise failed
    finally:
        del failed  # its traceback refers to this frame: a cycle that would keep the body in memory


def _is_missing(error: Exception) -> bool:
    return getattr(getattr(error, "failure", None), "kind", "") == "not_found"
