"""Arguments of a call -> the values that a function declares, or an error that the model can act on.

msgspec converts what it knows. pydantic converts what is annotated for it, if anywhere in the type.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from pathlib import PurePath
from typing import Any, cast

import msgspec

from dragoman.client.schemas import any_adapter, default_of, fixed_arguments, is_field, pydantic_adapter
from dragoman.client.values import ModelRetry

Converter = Callable[[Any], Any]
_AT = re.compile(r" - at `\$(.*)`$")  # where msgspec found the problem


class ArgumentValidator:
    """Checks names against the function's signature and converts values to the types of `hints`.

    `context`: the parameter that is no argument of the call; those that a partial has set are none either.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], hints: Mapping[str, Any], context: str = ""
    ) -> None:
        self._name = name
        self._converters = {each: converter(hint) for each, hint in hints.items()}
        try:
            parameters = list(signature(function).parameters.values())
        except (TypeError, ValueError):  # some callables of C code have no signature
            parameters = [Parameter("arguments", Parameter.VAR_KEYWORD)]
        hidden = {context, *fixed_arguments(function)}
        named = [each for each in parameters if each.kind in _BY_NAME and each.name not in hidden]
        self._known = [each.name for each in named]
        self._required = [each.name for each in named if default_of(each) is Parameter.empty]
        self._fields = [each for each in named if is_field(each.default)]
        self._open = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ModelRetry, which names every problem."""
        values: dict[str, Any] = {}
        problems = [f"{name}: required, but missing" for name in self._required if name not in arguments]
        for name, value in arguments.items():
            if name not in self._known and not self._open:
                known = ", ".join(self._known) or "none"
                problems.append(f"{name}: there is no such argument; the arguments are: {known}")
                continue
            try:
                values[name] = self._converters.get(name, _keep)(value)
            except ValueError as error:  # msgspec's and pydantic's ValidationError are ValueErrors
                if value is not None or name in self._required:  # models write null for what they leave out
                    problems += problems_of(name, error)
        if problems:
            raise ModelRetry("\n".join([f"The arguments of {self._name} are wrong.", *problems]))
        missing = {each.name: default_of(each) for each in self._fields if each.name not in values}
        return {**values, **missing}


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _keep(value: Any) -> Any:
    return value


def converter(hint: Any) -> Converter:
    if hint is Any:
        return _keep
    if adapter := pydantic_adapter(hint):
        return adapter.validate_python

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, hint, strict=False, dec_hook=_custom)
        except TypeError:  # msgspec does not support the type, such as a union of two models in a dataclass
            adapter = any_adapter(hint) if "pydantic" in sys.modules else None
            return adapter.validate_python(value) if adapter else value

    return convert


def _custom(hint: Any, value: Any) -> Any:
    """Types that msgspec leaves to us."""
    if adapter := pydantic_adapter(hint):
        return adapter.validate_python(value)
    if callable(validate := getattr(hint, "model_validate", None)):  # what has pydantic's methods
        return validate(value)
    if isinstance(hint, type) and issubclass(hint, PurePath | str | int | float):
        return hint(value)
    return value


def problems_of(name: str, error: ValueError) -> Iterator[str]:
    """`place.city: Field required`, one line for each problem. `name` may be empty."""
    listed: Any = getattr(error, "errors", None)
    if callable(listed):  # pydantic
        for each in cast(list[Any], listed(include_url=False)):
            path = ".".join(map(str, ([name] if name else []) + list(each["loc"])))
            yield f"{path or 'answer'}: {each['msg']}"
        return
    text = str(error)
    found = _AT.search(text)
    path = f"{name}{found[1] if found else ''}".removeprefix(".")
    yield f"{path or 'answer'}: {text[: found.start()] if found else text}"
