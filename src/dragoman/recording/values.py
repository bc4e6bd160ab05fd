"""A recording: one exchange on both wires, as a value, and as the JSON file that people send around.

A recording holds no secret: `recorder.seal` masks keys when it makes one. Bodies are bytes exactly as they
passed; a stream is its bytes and the time at which each piece came.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

from msgspec import Struct, convert, field, to_builtins

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.hosted import HostedCallRecord
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, Usage
from dragoman.profiles import ProviderSettings

VERSION = 1
FILE_SUFFIX = ".exchange.json"


class RecordedBody(Struct, frozen=True):
    """`pieces` has one entry for each piece of a stream: milliseconds since the exchange began, and its end
    in `data`. A whole body has none."""

    data: bytes = b""
    pieces: tuple[tuple[float, int], ...] = ()

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class RecordedMessage(Struct, frozen=True):
    """One HTTP message. A request has a method and a URL, a reply a status."""

    method: str = ""
    url: str = ""
    status: int = 0
    headers: dict[str, str] = {}
    body: RecordedBody = RecordedBody()


class RecordedAttempt(Struct, frozen=True):
    """One request to an upstream. `error` says why there is no reply. Times are since the exchange began."""

    provider: str = ""
    protocol: str = ""
    model: str = ""
    started_ms: float = 0.0
    request: RecordedMessage = RecordedMessage()
    reply: RecordedMessage = RecordedMessage()
    error: str = ""
    first_ms: float | None = None  # of the reply's body
    ended_ms: float | None = None


class RecordingSummary(Struct, frozen=True, kw_only=True):
    """What a list of exchanges shows. `state`: active, done, failed. Times are milliseconds, costs dollars.

    `prompt` to `run` are those of outline.Outline. They are empty until somebody looks.
    """

    id: str
    time: float  # seconds since 1970
    state: str = "active"
    agent: str = ""
    session: str = ""
    key: str = ""
    client: str = ""
    action: str = "generate"
    model: str = ""
    provider: str = ""
    upstream: str = ""
    target: str = ""
    stream: bool = False
    status: int = 0
    attempts: int = 0
    rounds: int = 0  # in which the gateway executed hosted tools
    providers: tuple[str, ...] = ()  # every provider that was tried, in order
    tools: int = 0
    calls: int = 0
    tool_names: tuple[str, ...] = ()  # called
    input: int | None = None
    output: int | None = None
    cached: int = 0
    cost: float | None = None  # None: the price is not known
    window: int | None = None  # tokens that the model takes
    queue_ms: float = 0.0
    first_ms: float | None = None
    ms: float | None = None
    losses: dict[str, int] = {}  # by severity
    codes: tuple[str, ...] = ()
    code_counts: dict[str, int] = {}
    error: str = ""
    cut: bool = False  # the answer had begun when it failed
    size: int = 0
    prompt: str = ""
    preview: str = ""
    messages: int = 0
    turn: int = 0
    start: str = ""
    run: str = ""


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call of a hosted tool that the gateway executed between the rounds of its exchange. `server`: the
    label of an MCP server. `began`: seconds since the exchange did."""

    round: int
    kind: str
    name: str
    server: str = ""
    arguments: str = ""
    result: str = ""
    error: str = ""
    approval: str = ""
    began: float = 0.0
    seconds: float = 0.0


class Recording(Struct, frozen=True, kw_only=True):
    """One exchange. `request` and `reply` are the client's side, `attempts` the upstreams'."""

    summary: RecordingSummary
    request: RecordedMessage
    reply: RecordedMessage
    attempts: tuple[RecordedAttempt, ...] = ()
    losses: tuple[Loss, ...] = ()
    rule: str = ""  # the line of [models] that decided where it went
    hosted: tuple[RecordedCall, ...] = ()

    @property
    def answered(self) -> RecordedAttempt | None:
        """The attempt whose reply reached the client: the last one."""
        return self.attempts[-1] if self.attempts else None


def dump_recording(recording: Recording) -> str:
    """The text of a `*.exchange.json` file."""
    value = to_builtins(recording, builtin_types=(bytes,))
    return jsontext.dumps({"dragoman_exchange": VERSION, **_readable(value)})


def load_recording(text: str | bytes) -> Recording:
    """Raises ConfigError where `text` is no recording, or one of a later version."""
    try:
        value = jsontext.decode(text)
    except ValueError as error:
        raise ConfigError(f"This is no recording: {error}") from None
    if not jsontext.is_object(value) or "dragoman_exchange" not in value:
        raise ConfigError("This is no recording: the field dragoman_exchange is missing.")
    version = value.pop("dragoman_exchange")
    if version != VERSION:
        raise ConfigError(f"This recording has version {version!r}. This dragoman reads version {VERSION}.")
    try:
        return convert(_decode(value), Recording, strict=False)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"This is no recording: {error}") from None


def _readable(value: Any) -> Any:
    """Bytes as text where they are UTF-8, so that people can read the file; base64 otherwise."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_readable(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _decode(value: Any) -> Any:
    """The reverse of `_readable`: only `data` holds bytes."""
    if jsontext.is_object(value):
        return {key: _bytes(each) if key == "data" else _decode(each) for key, each in value.items()}
    if jsontext.is_array(value):
        return [_decode(each) for each in value]
    return value


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return base64.b64decode(value["base64"])


class RecordedTarget(Protocol):
    @property
    def provider(self) -> ProviderSettings: ...

    @property
    def model(self) -> str: ...


class ObservedExchange(Protocol):
    """What the server knows of an exchange, and goes on to write while it is under way."""

    client: str
    action: str
    model: str
    caller: str
    stream: bool
    status: int
    tries: int
    tools: int
    calls: int
    waited: float  # seconds in line
    first: float | None  # seconds to the first byte of the answer
    usage: Usage | None
    failure: Failure | None
    gone: bool

    @property
    def target(self) -> RecordedTarget | None: ...

    @property
    def losses(self) -> list[Loss]: ...

    @property
    def seconds(self) -> float: ...

    def release(self) -> None:
        """The exchange is over: let go of what holds all of it."""


class RecordingDraft(Struct, eq=False):
    """An exchange while it is under way and until somebody looks at it; `recorder.seal` makes a Recording.

    It holds what passed by reference, with its secrets: a draft stays in memory. Pieces are (seconds on the
    monotonic clock, bytes).
    """

    id: str
    time: float
    began: float
    method: str
    url: str
    client: str
    request_headers: Mapping[str, str]
    key: str = ""  # the client's, to be masked
    body: bytes = b""
    status: int = 0
    headers: list[tuple[bytes, bytes]] = []
    pieces: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    attempts: list[AttemptDraft] = field(default_factory=lambda: list[AttemptDraft]())
    hosted: list[HostedCallRecord] = field(default_factory=lambda: list[HostedCallRecord]())
    record: ObservedExchange | None = None
    finished: bool = False
    seconds: float = 0.0
    losses: tuple[Loss, ...] = ()
    rule: str = ""
    publish: Callable[[RecordingDraft], None] | None = None  # says that a list would show something else now

    def begin_attempt(self, provider: str, protocol: str, model: str) -> None:
        """Names the provider of the request that is sent next."""
        self.attempts.append(AttemptDraft(perf_counter(), provider, protocol, model))
        if self.publish:
            self.publish(self)

    def observe(self, status: int, data: bytes) -> None:
        """Called by the response writer with each part of the answer; the status comes first."""
        if status:
            self.status = status
        if data:
            self.pieces.append((perf_counter(), data))
            if len(self.pieces) == 1 and self.publish:
                self.publish(self)


class AttemptDraft(Struct, eq=False):
    """One request to an upstream. `method` is empty until it is sent."""

    began: float
    provider: str = ""
    protocol: str = ""
    model: str = ""
    method: str = ""
    url: str = ""
    request_headers: Mapping[str, str] = {}
    body: bytes = b""
    status: int = 0
    headers: Mapping[str, str] = {}
    pieces: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    error: str = ""
    ended: float = 0.0  # of one that failed; 0.0: with its last piece
