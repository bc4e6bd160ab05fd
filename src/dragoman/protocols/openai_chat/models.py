"""What models behind Chat take, told from their names; an unknown name counts as current and standard.

Chat is spoken by OpenAI and by everybody's compatible servers, and the name is all that tells them apart.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import get_args

from dragoman.core.codec import ProtocolLimits
from dragoman.core.model import Effort
from dragoman.schemas.openai import OPENAI

_OPENAI = re.compile(r"(?:ft:)?(?:gpt-(?!oss)|chatgpt-|codex-|o\d+(?:-|$))")
_GPT = re.compile(r"(?:ft:)?gpt-(\d+)(?:\.(\d+))?(?!\d)(?!.*-chat)")
_O_SERIES = re.compile(r"(?:ft:)?o\d+(?:-|$)")
_MISTRAL = re.compile(r"mi[sx]tral|ministral|magistral|codestral|devstral|pixtral|voxtral", re.IGNORECASE)
_GEMINI = re.compile(r"gemini", re.IGNORECASE)
_TAKES_REASONING = re.compile(
    r"deepseek|kimi|moonshot|mimo|qwen|qwq|glm|minimax|ernie|step-?\d|hunyuan|longcat", re.IGNORECASE
)
_DEMANDS_REASONING = re.compile(r"deepseek|kimi|moonshot|mimo", re.IGNORECASE)
_STRINGS_ONLY = re.compile(r"deepseek", re.IGNORECASE)
_EFFORTS: tuple[Effort, ...] = get_args(Effort)

_STANDARD = ProtocolLimits(
    schema_field="function.parameters",
    call_id_length=40,
    custom_tools=True,
    hosted_tools=frozenset({"web_search"}),
    reasoning_state=False,
    schema_rules=OPENAI,
)
_COMPATIBLE = ProtocolLimits(
    call_id_length=40,
    hosted_tools=frozenset({"web_search"}),
    reasoning_state=False,
    schema_rules=OPENAI,
)
_OF_GEMINI = ProtocolLimits(
    call_id_length=40,
    call_state=True,  # `extra_content` on its calls
    hosted_tools=frozenset({"web_search"}),
    reasoning_state=False,
    schema_rules=OPENAI,
)
_OF_MISTRAL = ProtocolLimits(
    call_id=r"[a-zA-Z0-9]{9}",
    call_id_length=9,
    reasoning_state=False,
    schema_rules=OPENAI,
)


def limits(model: str) -> ProtocolLimits:
    """The empty name stands for the client's side, which speaks standard Chat."""
    if not model or is_openai(model):
        return _STANDARD
    if _GEMINI.search(model):
        return _OF_GEMINI
    return _OF_MISTRAL if is_mistral(model) else _COMPATIBLE


@lru_cache(maxsize=256)
def is_openai(model: str) -> bool:
    return _OPENAI.match(model) is not None


@lru_cache(maxsize=256)
def is_mistral(model: str) -> bool:
    return _MISTRAL.search(model) is not None


def knows_openai_fields(model: str) -> bool:
    """Custom tools, allowed subsets and refusals in the history: OpenAI's own servers only."""
    return not model or is_openai(model)


@lru_cache(maxsize=256)
def version(model: str) -> tuple[int, int] | None:
    """(5, 4) for gpt-5.4-mini; None for other names, and for the chat variants, which do not reason."""
    found = _GPT.match(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def max_tokens_field(model: str) -> str:
    """Reasoning models at OpenAI refuse `max_tokens`; compatible servers often know nothing else."""
    return "max_completion_tokens" if is_openai(model) else "max_tokens"


def efforts(model: str) -> tuple[Effort, ...]:
    """The efforts that the model knows; none at all where it does not reason on demand."""
    known = version(model)
    if _O_SERIES.match(model):
        return ("low", "medium", "high")
    if is_mistral(model) or (is_openai(model) and (known is None or known < (5, 0))):
        return ()
    if known is None or known > (5, 1):
        return _EFFORTS
    return ("minimal", "low", "medium", "high") if known == (5, 0) else ("none", "low", "medium", "high")


def nearest_effort(model: str, effort: Effort) -> Effort | None:
    """The effort closest to `effort` that the model knows, the lesser of two equals."""
    rank = _EFFORTS.index(effort)
    return min(efforts(model), key=lambda known: abs(_EFFORTS.index(known) - rank), default=None)


def refuses_tools_with_effort(model: str, effort: Effort | None) -> bool:
    """From gpt-5.4 on, function tools need effort none on Chat; from 5.5 on it must even be said."""
    known = version(model)
    if known is None or known < (5, 4):
        return False
    return effort != "none" if known >= (5, 5) else effort not in (None, "none")


def reasons(model: str, effort: Effort | None) -> bool:
    """Whether the model will reason, and so refuse the sampling settings."""
    known = version(model)
    if _O_SERIES.match(model) or known == (5, 0):
        return True
    if known is None or known < (5, 0):
        return False
    return effort != "none" if known >= (5, 5) else effort not in (None, "none")


def takes_verbosity(model: str) -> bool:
    known = version(model)
    return not model or (known is not None and known >= (5, 0))


def takes_web_search(model: str) -> bool:
    """At OpenAI only the search models do."""
    return not is_mistral(model) and (not is_openai(model) or "search" in model)


@lru_cache(maxsize=256)
def takes_reasoning(model: str) -> bool:
    """Whose servers take `reasoning_content` back; a closed validator elsewhere refuses the field."""
    return _TAKES_REASONING.search(model) is not None


@lru_cache(maxsize=256)
def demands_reasoning(model: str) -> bool:
    """Whose servers refuse an assistant turn without it while they think."""
    return _DEMANDS_REASONING.search(model) is not None


@lru_cache(maxsize=256)
def takes_text_parts(model: str) -> bool:
    """Arrays of text as the content of system, assistant and tool messages."""
    return _STRINGS_ONLY.search(model) is None
