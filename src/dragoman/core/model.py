"""The neutral model between wires: frozen values that no protocol owns.

Every value may carry `extras` (wire fields that only their own protocol understands, which return
to it unchanged) and `where` (how the source spells its place; not part of the value's meaning).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

Wire = dict[str, Any]
Extras = dict[str, Wire]
Role = Literal["system", "developer", "user", "assistant"]
CallKind = Literal["function", "custom", "local_shell", "shell", "apply_patch", "computer"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
StopReason = Literal[
    "end", "stop_sequence", "tool_calls", "length", "context_full", "content_filter", "refusal", "pause",
    "malformed_call", "other",
]  # fmt: skip
FailureKind = Literal[
    "bad_request", "context_too_long", "too_large", "unauthenticated", "billing", "forbidden", "not_found",
    "conflict", "rate_limit", "server", "overloaded", "timeout", "truncated",
]  # fmt: skip


class Value(Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A value with a place. Two values are equal whatever their places.

    Values are made of JSON and of other values: they form no cycles that the garbage collector would have to
    look for (`gc=False`).
    """

    extras: Extras | None = None
    where: str = ""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self.__struct_fields__ if name != "where"
        )

    def __ne__(self, other: object) -> bool:  # Struct has one of its own, which compares identities
        return not self == other

    __hash__: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride] - extras are dicts


class State(Struct, frozen=True, gc=False):
    """Opaque data that `origin` must get back byte for byte and nobody else may see.

    `id` is the name the origin gave to the part, where it must be echoed too.
    """

    origin: str
    data: str
    id: str = ""


# Parts: one piece of content each.


class Part(Value, frozen=True, eq=False, kw_only=True):
    """`cache` is the lifetime of a cache breakpoint behind the part (5m, 1h); empty: there is none."""

    state: State | None = None
    cache: str = ""


class Citation(Value, frozen=True, eq=False):
    """A source of a text. `start` and `end` count characters of that text; -1: unknown."""

    url: str
    title: str = ""
    cited: str = ""
    start: int = -1
    end: int = -1


class Text(Part, frozen=True, eq=False):
    text: str = ""
    citations: tuple[Citation, ...] = ()


class Reasoning(Part, frozen=True, eq=False):
    """What the model thought. `hidden`: the provider shows no text, only state."""

    text: str = ""
    hidden: bool = False


class ToolCall(Part, frozen=True, eq=False):
    """`arguments` is JSON text exactly as the model wrote it, valid or not (raw text if `kind` is custom).

    `id` is empty where the wire has none. `complete` is false when the reply was cut inside the call.
    """

    id: str
    name: str
    arguments: str = ""
    kind: CallKind = "function"
    namespace: str = ""
    complete: bool = True


class Base64(Struct, frozen=True, gc=False):
    data: str


class Url(Struct, frozen=True, gc=False):
    url: str


class FileId(Struct, frozen=True, gc=False):
    """A file kept by the provider that `origin` names; nobody else can open it."""

    id: str
    origin: str


class Plain(Struct, frozen=True, gc=False):
    text: str


MediaKind = Literal["image", "document", "audio", "video"]


class Media(Part, frozen=True, eq=False):
    """`media_type` is empty where the wire does not say; `detail` is low, high, auto, original or empty."""

    kind: MediaKind
    media_type: str
    source: Base64 | Url | FileId | Plain
    name: str = ""
    detail: str = ""

    @property
    def in_words(self) -> str:
        """What stands in its place where only text can."""
        return f"Binary content of type {self.media_type or 'application/octet-stream'} was processed."


def media_kind(media_type: str) -> MediaKind:
    match media_type.partition("/")[0]:
        case "image" | "audio" | "video" as kind:
            return kind
        case _:
            return "document"


class Refusal(Part, frozen=True, eq=False):
    text: str = ""


class ExecutedCall(Struct, frozen=True, gc=False):
    """What a part of a reply or of a history says of a call that its server ran, the upstream's or ours.

    `step`: the part shows the call, its result, `both`, the `listing` of a server; it is the `question`
    whether a call may run, or the client's `answer`, where `failed` means no and `text` says why. `told`:
    nobody needs more of it than its words. `approval`: the id of the request by which the client allowed it.
    `loaded`: the tools that a search for tools found.
    """

    id: str
    step: Literal["call", "result", "both", "listing", "question", "answer", "told"]
    kind: HostedKind = "mcp"
    name: str = ""
    arguments: str = ""
    server: str = ""
    text: str = ""
    failed: bool = False
    approval: str = ""
    loaded: tuple[str, ...] = ()


class Foreign(Part, frozen=True, eq=False):
    """A part that only `origin` understands, kept whole; `text` is what others may say instead.

    `executed`: the part ends a call that the upstream ran.
    """

    origin: str
    body: Wire
    text: str = ""
    executed: ExecutedCall | None = None


class ToolResult(Part, frozen=True, eq=False):
    """`name` is empty where the wire does not repeat it. `kind` is that of the call."""

    call_id: str
    name: str = ""
    content: tuple[Text | Media | Foreign, ...] = ()
    failed: bool = False
    kind: CallKind = "function"


AnyPart = Text | Reasoning | ToolCall | ToolResult | Media | Refusal | Foreign


# Requests


class Message(Value, frozen=True, eq=False):
    """Tool results stand in user messages, whatever role the wire gives them."""

    role: Role
    parts: tuple[AnyPart, ...]


class ToolDeclaration(Value, frozen=True, eq=False):
    """`kind` custom: freeform text, `grammar` (syntax, definition) where it is constrained.

    `strict` is None where the client left it to the provider. `deferred`: declared but not yet loaded.
    """

    name: str
    description: str = ""
    parameters: Wire | None = None
    strict: bool | None = None
    kind: Literal["function", "custom"] = "function"
    grammar: tuple[str, str] | None = None
    namespace: str = ""
    deferred: bool = False


HostedKind = Literal[
    "web_search", "web_fetch", "code_execution", "file_search", "image_generation", "computer", "mcp",
    "local_shell", "shell", "apply_patch", "tool_search", "maps", "bash", "text_editor", "memory", "other",
]  # fmt: skip


class HostedTool(Value, frozen=True, eq=False):
    """A tool whose schema the provider knows.

    `settings` uses neutral words. web_search: `allowed_domains`, `blocked_domains`, `max_uses`,
    `location` (city, region, country, timezone), `context_size`. web_fetch: the first three, and
    `max_content_tokens`. mcp: `label`, `url`, `headers`, `allowed` and `denied` (names of tools), `filter`
    (what else only the client's protocol can restrict), `approval` (never, or when the client must approve a
    call), `deferred` (whether a search must load its tools, by name; the empty one stands for all others).

    `function`: its description and schema for models that do not know it, where these depend on the
    declaration. A tool that has no name has calls of a kind of their own.
    """

    kind: HostedKind
    name: str = ""
    settings: dict[str, Any] = {}
    function: tuple[str, Wire] | None = None


# Kinds that the client runs itself; for an upstream that does not know them they are functions
CLIENT_TOOLS = frozenset({"local_shell", "shell", "apply_patch", "bash", "text_editor", "memory", "computer"})
AnyTool = ToolDeclaration | HostedTool


class ToolChoice(Value, frozen=True, eq=False):
    """`names` restricts the choice: one name with `required` forces that tool.

    `hosted` are the hosted tools that the choice allows too: a kind, or `mcp:` and the label of a server.
    """

    mode: Literal["auto", "none", "required"]
    names: tuple[str, ...] = ()
    hosted: tuple[str, ...] = ()

    @property
    def restricts(self) -> bool:
        return bool(self.names or self.hosted)


class OutputFormat(Value, frozen=True, eq=False):
    kind: Literal["text", "json", "schema"]
    schema: Wire | None = None
    name: str = ""
    description: str = ""
    strict: bool | None = None


class Settings(Value, frozen=True, eq=False, kw_only=True):
    """Settings of at least two protocols; None where the client sent none."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    n: int | None = None
    output: OutputFormat | None = None
    effort: Effort | None = None
    budget: int | None = None  # thinking tokens; 0: off, -1: as the model likes
    show_reasoning: bool | None = None
    verbosity: str | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    store: bool | None = None
    cache_key: str | None = None


class Compaction(Value, frozen=True, eq=False):
    """The client wants the history replaced by a summary.

    `threshold`: where the input has more tokens; 0: now, and the summary is all of the reply. `instructions`
    replace ours for the summary.
    """

    threshold: int = 0
    instructions: str = ""
    pause: bool = False  # with a threshold: the summary is all of the reply


def summary_message(summary: str) -> str:
    """The text of the user's message that stands for the earlier conversation."""
    return f"Earlier messages of this conversation were replaced by this summary:\n\n{summary}"


class ContextEdit(Value, frozen=True, eq=False):
    """Clears old tool uses, or old thinking, in what the upstream sees.

    Tool uses are cleared where there are more than `uses`, or, without that, where the input has more than
    `tokens`. The newest `keep` stay (-1: all), and those of `excluded` tools; `inputs`: their arguments are
    cleared too. Less than `at_least` tokens are not worth it. `cleared` and `cleared_tokens`: what was done.
    """

    kind: Literal["tool_uses", "thinking"]
    tokens: int = 0
    uses: int = 0
    keep: int = 0
    at_least: int = 0
    excluded: tuple[str, ...] = ()
    inputs: bool = False
    cleared: int = 0
    cleared_tokens: int = 0


class Request(Value, frozen=True, eq=False):
    """`system` is the text that stands outside the conversation; later system text is a message.

    `compaction`: the reply is to be a summary of the conversation. `edits` are for an upstream that has no
    context editing; None: there is nothing to edit.
    """

    model: str
    messages: tuple[Message, ...]
    system: tuple[Text, ...] = ()
    tools: tuple[AnyTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    settings: Settings = Settings()
    stream: bool = False
    compaction: Compaction | None = None
    edits: tuple[ContextEdit, ...] | None = None


# Responses


class Usage(Struct, frozen=True, gc=False):
    """`input` includes `cached` and `cache_write`; `output` includes `reasoning`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class RoundUsage(Struct, frozen=True, gc=False):
    """What one round of a reply took. `kind`: `summary` is one of the conversation, before the reply."""

    kind: Literal["answer", "summary"]
    usage: Usage


def whole_usage(input: int, output: int, cached: int, cache_write: int, reasoning: int) -> Usage:
    """Usage from counts of a vendor. Cached tokens that exceed the sum stand beside it, as xAI counts them.

    Reasoning that exceeds it says nothing: OpenRouter counts it with another tokenizer, and its cost is that
    of `completion_tokens` alone. Who counts it beside the sum is a fact of the profile.
    """
    input += cached + cache_write if cached + cache_write > input else 0
    return Usage(input, output, cached, cache_write, reasoning)


class Stop(Struct, frozen=True, gc=False):
    """`raw` is the upstream's own word; `sequence` the stop sequence that matched."""

    reason: StopReason
    raw: str = ""
    sequence: str = ""


class Response(Value, frozen=True, eq=False):
    """`created` is a Unix time, 0 where unknown. `rounds`: where there were several, each by itself."""

    id: str
    model: str
    parts: tuple[AnyPart, ...]
    stop: Stop
    usage: Usage | None = None
    created: int = 0
    rounds: tuple[RoundUsage, ...] = ()


class Failure(Struct, frozen=True, gc=False):
    """An error in neutral words. `retry_after` in seconds, None where unknown."""

    kind: FailureKind
    message: str
    status: int = 0
    code: str = ""
    retry_after: float | None = None
