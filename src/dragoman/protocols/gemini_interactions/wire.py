"""The wire of Gemini Interactions: objects as types, words beside the neutral ones, fields without meaning
elsewhere.

A conversation is a row of steps: what the user said, what the model thought and said, calls and their
results. The types document the wire. Bodies stay plain dicts, so that fields newer than this file survive.
Field names are in snake_case and enums in lower case, other than in Google's generateContent.
"""

from __future__ import annotations

from typing import Final, Literal, NotRequired, Required, TypedDict

from dragoman.core.fields import Table, made_by, printer, word_set
from dragoman.core.model import Extras, StopReason, Wire

PROTOCOL_NAME: Final = "gemini-interactions"
is_native = made_by(PROTOCOL_NAME)
printed = printer(PROTOCOL_NAME)
# Key of our own notes in the extras of a value: the step that it belongs to. Never written.
STEP: Final = "gemini-interactions step"
PLAIN_TEXT: Extras = {PROTOCOL_NAME: {"type": "text"}}  # shared by the many texts that are nothing more


class ContentWire(TypedDict, total=False):
    """A content block of `user_input`, `model_output` or a result. Media have `data` (base64) or `uri`."""

    type: Required[Literal["text", "image", "audio", "document", "video"]]
    text: str
    annotations: list[Wire]  # url_citation, file_citation, place_citation; they count bytes of the text
    data: str
    uri: str
    mime_type: str
    resolution: Literal["low", "medium", "high", "ultra_high"]  # image, video


class StepWire(TypedDict, total=False):
    """Each type has its own fields; these are the ones that we read and write."""

    type: Required[str]  # user_input, model_output, thought, function_call, function_result, …
    content: list[ContentWire]  # user_input, model_output
    error: Wire  # of a model_output that failed
    signature: str  # base64; of a thought and of steps of hosted tools, sometimes of a function_call
    summary: list[ContentWire]  # thought
    id: str  # of a call
    name: str
    arguments: Wire
    call_id: str  # function_result: the id of its call
    result: str | list[ContentWire] | Wire
    is_error: bool


class InteractionRequest(TypedDict):
    """POST /v1/interactions. All but the history must be sent with each turn."""

    model: str  # or `agent`
    input: str | ContentWire | list[ContentWire] | list[StepWire]
    system_instruction: NotRequired[str]
    tools: NotRequired[list[Wire]]  # one flat object each: {"type": "function", "name", …}, google_search, …
    generation_config: NotRequired[InteractionConfig]
    response_format: NotRequired[Wire | list[Wire]]  # {"type": "text", "mime_type", "schema"}
    previous_interaction_id: NotRequired[str]
    store: NotRequired[bool]  # true unless set
    stream: NotRequired[bool]
    background: NotRequired[bool]
    continuation_token: NotRequired[str]
    safety_settings: NotRequired[list[Wire]]
    service_tier: NotRequired[Literal["flex", "standard", "priority", "deferred"]]
    labels: NotRequired[dict[str, str]]


class InteractionConfig(TypedDict, total=False):
    """There is no top_k, no penalty, no thinking budget and no switch for parallel calls."""

    max_output_tokens: int
    stop_sequences: list[str]
    seed: int
    temperature: float  # deprecated, as top_p
    top_p: float
    thinking_level: Literal["minimal", "low", "medium", "high"]
    thinking_summaries: Literal["auto", "none"]
    tool_choice: Literal["auto", "any", "none", "validated"] | Wire  # {"allowed_tools": {"mode", "tools"}}


class InteractionUsage(TypedDict, total=False):
    """`total_tokens` is the sum of input, output, thought and tool use."""

    total_input_tokens: int
    total_cached_tokens: int
    total_output_tokens: int  # without thoughts
    total_thought_tokens: int
    total_tool_use_tokens: int
    total_tokens: int


class InteractionWire(TypedDict, total=False):
    """The reply, and the resource that GET returns. In events of a stream it has no steps."""

    id: str
    object: Literal["interaction"]
    model: str
    status: Required[str]
    steps: list[StepWire]  # only the new ones
    usage: InteractionUsage
    created: str  # ISO 8601
    updated: str
    errors: list[Wire]  # code, message
    previous_interaction_id: str
    continuation_token: str


class InteractionEvent(TypedDict, total=False):
    """An event of a stream; the SSE event has the same name as `event_type`. The last one is `[DONE]`."""

    event_type: Required[str]
    event_id: str  # by which a stream is resumed
    interaction: InteractionWire  # interaction.created, interaction.completed
    interaction_id: str  # interaction.status_update
    index: int  # of a step: its place in `steps`
    step: StepWire  # step.start
    delta: Wire  # step.delta: text, thought_summary, thought_signature, arguments_delta, …
    error: Wire  # error: code, message


# status <-> stop reason. A stop sequence ends a reply like any other. A limit of tokens, a filter and a
# refusal leave it incomplete, and `errors` tells the last two.
STOP: Table[StopReason] = Table(
    ("completed", "end"),
    ("completed", "stop_sequence"),
    ("requires_action", "tool_calls"),
    ("incomplete", "length"),
    ("incomplete", "context_full"),
    ("incomplete", "content_filter"),
    ("incomplete", "refusal"),
    ("requires_continuation", "pause"),
    ("failed", "malformed_call"),
    other=("incomplete", "other"),
)
RUNNING = frozenset({"in_progress", "queued"})
# Why a reply is incomplete -> what `errors` says; the reason is the code
WITHHELD: dict[str, str] = {
    "content_filter": "a content filter stopped the answer",
    "refusal": "the model refused to answer",
}

CHOICES: Table[Literal["auto", "none", "required"]] = Table(
    ("auto", "auto"), ("none", "none"), ("any", "required"), ("validated", "auto"), other=("auto", "auto")
)
# A signature that Google's servers accept for a call that Gemini did not make: documented for generateContent
# (ai.google.dev/gemini-api/docs/thought-signatures)
SENTINEL = "skip_thought_signature_validator"
CUT_CALL = "The reply was cut inside this call, so it must not run."

# Fields that no other protocol has and that nobody misses there: they are kept, but are no losses
QUIET_STEP = word_set("type signature content summary arguments result")
QUIET_CONTENT = word_set("type annotations data resolution")
QUIET_REQUEST = word_set("input stream model")
QUIET_RESPONSE = word_set(
    "id object model status steps usage created updated service_tier previous_interaction_id tools "
    "system_instruction generation_config response_format errors labels agent environment_id role"
)
QUIET_USAGE = word_set(
    "total_input_tokens total_cached_tokens total_output_tokens total_thought_tokens total_tool_use_tokens "
    "total_tokens initial_input_tokens cached_tokens_by_modality input_tokens_by_modality "
    "output_tokens_by_modality tool_use_tokens_by_modality grounding_tool_count raw_prompt_token"
)
