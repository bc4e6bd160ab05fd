"""What is known about a model at a provider: a value that codecs read instead of the model's name.

The facts are data (profiles/models.toml, profiles/providers.toml) and can be overridden in dragoman.toml.
A fact that is not known is None, and is treated like that of a current model on a permissive server.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.model import Effort, Usage

EFFORTS: tuple[Effort, ...] = get_args(Effort)  # from least to most

# What a server may refuse, named as in core.model.Settings; `parallel` is Request.parallel
Refusable = Literal[
    "frequency_penalty", "presence_penalty", "seed", "stop", "n", "verbosity", "user", "metadata", "logprobs",
    "top_logprobs", "store", "cache_key", "parallel",
]  # fmt: skip


class PriceTier(Struct, frozen=True, kw_only=True):
    """The prices of a whole request whose input is more than `above` tokens."""

    above: int = 0
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


class Price(PriceTier, frozen=True, kw_only=True):
    """US dollars per million tokens, as `source` listed them on `date`; None: not known."""

    tiers: tuple[PriceTier, ...] = ()
    date: str = ""
    source: str = ""

    def cost(self, usage: Usage) -> float | None:
        """What these tokens cost in US dollars; None where the price of a used kind is not known."""
        tier = max(
            (each for each in (self, *self.tiers) if usage.input > each.above or not each.above),
            key=lambda each: each.above,
        )
        plain = usage.input - usage.cached - usage.cache_write
        total = plain * tier.input + usage.output * tier.output
        for tokens, price in ((usage.cached, tier.cached_input), (usage.cache_write, tier.cache_write)):
            if tokens and price is None:
                return None
            total += tokens * (price or 0)
        return total / 1_000_000


FREE = Price(input=0, output=0, cached_input=0, cache_write=0)


class ModelProfile(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Facts about one model at one provider. Fields with a default other than None have a safe default."""

    # Size, in tokens
    context_window: int | None = None
    max_output: int | None = None
    min_output: int = 0  # the server refuses a smaller limit
    default_output: int = 32_000  # where the protocol demands a limit and the client gave none

    price: Price | None = None

    # Capabilities
    images: bool | None = None
    tools: bool | None = None
    parallel_calls: bool | None = None
    strict: bool | None = None
    structured_output: bool | None = None
    hosted_tools: tuple[str, ...] | None = None
    max_tools: int = 0  # 0: no limit is known
    tool_search: bool = False
    custom_tools: bool = False  # free-form tools, beside functions
    forced_tools: bool = True  # a tool choice that demands a call
    combined_tools: bool = True  # functions beside hosted tools or an output schema (Gemini 3)
    allowed_tools: bool = False  # a tool choice that names several tools (Chat)

    # Reasoning
    reasoning: bool | None = None
    efforts: tuple[Effort, ...] | None = None  # (): the model takes no effort
    default_effort: Effort | None = None  # what the model does where nothing is requested
    budget: bool | None = None  # whether it takes a limit of thinking tokens
    budget_range: tuple[int, int] = (0, 24_576)
    thinking_display: bool = False  # shows its thinking only on request (Anthropic)
    tools_without_reasoning: bool = False  # Chat only: function tools need effort none
    reasoning_history: Literal["refused", "taken", "required"] = "refused"  # `reasoning_content` (Chat)

    # Settings
    sampling: Literal["any", "one", "unless_reasoning", "none"] = "any"  # one: temperature or top_p
    refused: tuple[Refusable, ...] = ()
    verbosity: bool = False
    service_tiers: tuple[str, ...] | None = None
    stream_usage: bool = True  # counts the tokens of a stream on request: `stream_options` (Chat)
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # Chat

    # Prompt cache
    # The field of a part that marks the end of a cached prefix, where parts may have one (OpenAI)
    cache_breakpoints: Literal["", "prompt_cache_breakpoint", "cache_control"] = ""
    automatic_cache: bool = False  # `cache_control` of a request caches all of it (Anthropic)

    # Conversation
    transcript: bool = False  # it is a record, which no server answers: nothing is invented to please one
    system_messages: bool = False  # `role: system` after the first message (Anthropic)
    prefill: bool = False  # the conversation may end with an assistant message (Anthropic)
    assistant_after_tool: bool = False  # an assistant message must follow tool results (Chat)
    text_parts: bool = True  # arrays of text as content of system, assistant and tool messages (Chat)
    refusals: bool = False  # `refusal` in the history (Chat)
    media_in_results: bool = True  # images inside tool results (Gemini 3)
    signed_calls: bool = True  # calls must carry a signature (Gemini 3)
    call_state: bool = False  # calls have a slot for opaque state (Chat at Google)
    reasoning_beside_output: bool = False  # reasoning tokens are not in `completion_tokens` (Chat)
    call_id: str = r"[\x21-\x7e]+"  # Chat
    call_id_length: int = 40  # Chat
    required_choice: Literal["required", "any"] = "required"  # the word for it (Chat)

    def nearest_effort(self, effort: Effort, protocol: tuple[Effort, ...] = EFFORTS) -> Effort | None:
        """`effort`, or the closest one that the model takes; None where it takes none at all.

        `protocol`: the efforts that its protocol can express, which count where the model is not known.

        `none` switches reasoning off, so another effort never becomes `none`. Of two at the same distance
        the lesser is taken.
        """
        efforts = protocol if self.efforts is None else self.efforts
        if effort in efforts:
            return effort
        rank = EFFORTS.index(effort)
        active: tuple[Effort, ...] = tuple([each for each in efforts if each != "none"])
        return min(active, key=lambda each: abs(EFFORTS.index(each) - rank), default=None)

    def reasons_with(self, effort: Effort | None) -> bool:
        """Whether the model reasons when this effort is requested; an unknown model is taken not to."""
        return bool(self.reasoning) and (effort or self.default_effort) != "none"


UNKNOWN = ModelProfile()


def for_transcripts(profile: ModelProfile) -> ModelProfile:
    """`profile` of a server that takes whatever a conversation holds."""
    return replace(
        profile,
        transcript=True,
        prefill=True,
        automatic_cache=False,
        assistant_after_tool=False,
        signed_calls=False,
        reasoning_history="taken",
    )
