"""What can go wrong, split by whose fault it is.

DragomanError
├── WireError       the peer broke its protocol: names the protocol and the path
├── GrammarError    we broke a protocol: a bug in dragoman
├── LossError       strict mode refused a translation that would lose something
├── ConfigError     the caller named something that does not exist
└── UpstreamError   the upstream reported a failure instead of a response
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.core.losses import Loss
    from dragoman.core.model import Failure


class DragomanError(Exception):
    """The root of every error that dragoman raises on purpose."""


class WireError(DragomanError):
    """Malformed wire: what `protocol` expected at `path`, and what came instead."""

    def __init__(self, protocol: str, path: str, problem: str) -> None:
        self.protocol, self.path, self.problem = protocol, path, problem
        super().__init__(protocol, path, problem)  # what __init__ took, so that it can be pickled

    def __str__(self) -> str:
        return f"{self.protocol}: {self.path or 'body'}: {self.problem}"


class GrammarError(DragomanError):
    """A stream that breaks the order of events its protocol demands."""


def expect(holds: bool, problem: str) -> None:
    """Raises GrammarError with `problem` unless the condition holds."""
    if not holds:
        raise GrammarError(problem)


class LossError(DragomanError):
    """Strict mode: `losses` lists what the translation could not carry across."""

    def __init__(self, losses: list[Loss]) -> None:
        self.losses = losses
        super().__init__(losses)

    def __str__(self) -> str:
        listed = "; ".join(f"{loss.where} {loss.kind}: {loss.why}" for loss in self.losses)
        return f"strict translation refused: {listed}"


class ConfigError(DragomanError):
    """An unknown protocol, dialect or option; the message lists the known ones."""


class UpstreamError(DragomanError):
    """The upstream answered with an error; `failure` is its neutral form."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure)

    def __str__(self) -> str:
        return self.failure.message
