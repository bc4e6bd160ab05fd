"""What the keywords of `generate`, `stream` and `run` may be: checked before a request, shown by `help`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from dragoman.core.errors import ConfigError
from dragoman.core.model import Settings

OTHER_NAMES = {
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "effort",
    "thinking_budget": "budget",
    "stop_sequences": "stop",
    "response_format": "output",
}
# Checked beside the neutral settings
_OTHER_TYPES: dict[str, Any] = {
    **dict.fromkeys(("max_turns", "max_total_tokens", "max_parallel", "tries", "output_retries"), int),
    **dict.fromkeys(("max_seconds", "max_cost", "tool_timeout", "timeout"), float),
    "parallel": bool,
    "system": str,
    "extra": dict[str, Any],
    "stop": str | tuple[str, ...],
    "output_mode": Literal["auto", "native", "tool", "instruction"],
    "provider_options": dict[str, dict[str, Any]],
}
_WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text", dict: "a dict"}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raises ConfigError for a value of the wrong type. It leaves unknown names to others."""
    for name, value in settings.items():
        expected = _types().get(OTHER_NAMES.get(name, name))
        if expected is None or value is None or isinstance(value, msgspec.Struct):
            continue
        try:
            msgspec.convert(value, expected)
        except msgspec.ValidationError:
            raise ConfigError(f"The setting {name} is {_words(expected)}, not {value!r}.") from None


@cache
def _types() -> dict[str, Any]:
    neutral = get_type_hints(Settings)
    checked = {name: neutral[name] for name in Settings.__struct_fields__ if name not in _UNCHECKED}
    return checked | _OTHER_TYPES


_UNCHECKED = ("extras", "where", "output")  # `output` has many forms, and an error of its own


def _words(expected: Any) -> str:
    options = [each for each in get_args(expected) if each is not NoneType]
    if get_origin(expected) is Literal:
        return f"one of {', '.join(map(repr, options))}"
    if get_origin(expected) is dict:
        return _WORDS[dict]
    if not options:
        return _WORDS[expected]
    if tuple[str, ...] in options:
        return "a text or a list of texts"
    return _words(options[0])


def lists_keywords(keywords: type) -> Callable[[_Function], _Function]:
    """`help` and completion show each keyword of that TypedDict instead of `**options`."""

    def list_keywords(function: _Function) -> _Function:
        shown = signature(function)
        fixed = [each for each in shown.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        parameters = [*fixed, *_parameters(keywords)]
        function.__signature__ = shown.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess] - read by inspect
        return function

    return list_keywords


@cache
def _parameters(keywords: type) -> list[Parameter]:
    """The keywords with their types as they are written. None means not set."""
    return [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=None, annotation=getattr(hint, "__forward_arg__", hint)
        )
        for name, hint in keywords.__annotations__.items()
    ]
