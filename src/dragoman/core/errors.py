"""What can go wrong, split by whose fault it is.

DragomanError
├── WireError       the peer broke its protocol: names the protocol and the path
├── GrammarError    we broke a protocol: a bug in dragoman
├── LossError       strict mode refused a translation that would lose something
├── ConfigError     the caller named something that does not exist
└── UpstreamError   the upstream reported a failure instead of a response: one class for each kind
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from dragoman.core.losses import Loss
    from dragoman.core.model import Failure, FailureKind


class DragomanError(Exception):
    """The root of every error that dragoman raises on purpose. All can be pickled, however they are made."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[DragomanError], args: tuple[Any, ...], state: dict[str, Any]) -> DragomanError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class WireError(DragomanError):
    """Malformed wire: what `protocol` expected at `path`, and what came instead."""

    def __init__(self, protocol: str, path: str, problem: str) -> None:
        self.protocol: str = protocol
        self.path: str = path
        self.problem: str = problem
        super().__init__(protocol, path, problem)

    def __str__(self) -> str:
        return f"{self.protocol}: {self.path or 'body'}: {self.problem}"


class GrammarError(DragomanError):
    """A stream that breaks the order of events its protocol demands."""


def describe_unknown(what: str, name: str, known: Iterable[str]) -> str:
    """`Unknown provider 'gorq'. Did you mean 'groq'?`: the one wording for a name that nobody has."""
    listed = list(known)
    close = get_close_matches(name, listed, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(listed)}."
    return f"Unknown {what} {name!r}. {hint}"


def expect(holds: bool, problem: str) -> None:
    """Raises GrammarError with `problem` unless the condition holds."""
    if not holds:
        raise GrammarError(problem)


class LossError(DragomanError):
    """Strict mode: `losses` lists what the translation could not carry across."""

    def __init__(self, losses: list[Loss]) -> None:
        self.losses: list[Loss] = losses
        super().__init__(losses)

    def __str__(self) -> str:
        listed = " ".join(f"{loss.where} {loss.kind}: {loss.why}" for loss in self.losses)
        return f"strict translation refused: {listed}"


class ConfigError(DragomanError):
    """An unknown protocol, dialect or option; the message lists the known ones."""


class UpstreamError(DragomanError):
    """The upstream answered with an error; `failure` is its neutral form.

    `UpstreamError(failure)` makes an error of the subclass that stands for `failure.kind`.
    """

    def __new__(cls, failure: Failure) -> Self:
        chosen = _UPSTREAM_ERRORS.get(failure.kind, cls) if cls is UpstreamError else cls
        return super().__new__(cast(type[Self], chosen), failure)

    def __init__(self, failure: Failure) -> None:
        self.failure: Failure = failure
        super().__init__(failure)

    def __str__(self) -> str:
        return self.failure.message


class BadRequestError(UpstreamError):
    """The upstream refused the request as it is."""


class ContextTooLongError(BadRequestError):
    """The conversation has more tokens than the model takes."""


class RequestTooLargeError(BadRequestError):
    """The body of the request has more bytes than the upstream takes."""


class AuthenticationError(UpstreamError):
    """The key is missing or wrong."""


class BillingError(UpstreamError):
    """The account has no credit, or its quota is used up."""


class PermissionDeniedError(UpstreamError):
    """The key is valid and may not do this."""


class NotFoundError(UpstreamError):
    """The upstream has no such model or resource."""


class ConflictError(UpstreamError):
    """The request contradicts the state of a resource."""


class RateLimitError(UpstreamError):
    """Too many requests or tokens; `failure.retry_after` says how long to wait, where the upstream did."""


class ServerError(UpstreamError):
    """The upstream failed, could not be reached, or its answer cannot be read."""


class OverloadedError(ServerError):
    """The upstream has no capacity at the moment."""


class UpstreamTimeoutError(UpstreamError):
    """The reply did not come in time."""


class TruncatedError(UpstreamError):
    """The reply broke off before its end."""


_UPSTREAM_ERRORS: dict[FailureKind, type[UpstreamError]] = {
    "bad_request": BadRequestError,
    "context_too_long": ContextTooLongError,
    "too_large": RequestTooLargeError,
    "unauthenticated": AuthenticationError,
    "billing": BillingError,
    "forbidden": PermissionDeniedError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "rate_limit": RateLimitError,
    "server": ServerError,
    "overloaded": OverloadedError,
    "timeout": UpstreamTimeoutError,
    "truncated": TruncatedError,
}
