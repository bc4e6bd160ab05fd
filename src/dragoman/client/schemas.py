"""JSON Schema from type hints: what a function or a class says about itself, said to a model."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from inspect import Parameter, cleandoc, getdoc, signature
from typing import Any

from dragoman.client.docstrings import docstring
from dragoman.core.errors import ConfigError
from dragoman.core.model import Wire

_PLAIN: dict[Any, Wire] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    Any: {},
    object: {},
    dict: {"type": "object"},
    list: {"type": "array", "items": {}},
    tuple: {"type": "array", "items": {}},
    set: {"type": "array", "items": {}, "uniqueItems": True},
    bytes: {"type": "string", "contentEncoding": "base64"},
    pathlib.Path: {"type": "string"},
    decimal.Decimal: {"type": "string"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
}
_NAMES: dict[type[Any], str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function with their types; what cannot be told by name is refused."""
    hints = _resolved(function)
    found: dict[str, Any] = {}
    for name, parameter in signature(function).parameters.items():
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise ConfigError(f"{name} is positional only; a model calls by name")
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            found[name] = hints.get(name, Any)
    return found


def function_schema(function: Callable[..., Any]) -> Wire:
    """The parameters of `function` as an object schema; a default makes one optional."""
    _, described = docstring(getdoc(function) or "")
    parameters = signature(function).parameters
    rows = {name: (hint, parameters[name].default) for name, hint in hints_of(function).items()}
    return _object(rows, described, Parameter.empty)


def schema(hint: Any, inside: tuple[Any, ...] = ()) -> Wire:
    """The schema of one type."""
    if hint in inside:  # it holds itself; how deep, only the model knows
        return {"type": "object"}
    if isinstance(hint, Mapping):  # a schema already
        return dict(typing.cast(Wire, hint))
    try:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
    except TypeError:
        pass
    origin = typing.get_origin(hint)
    return _generic(hint, origin, inside) if origin else _class(hint, inside)


def _generic(hint: Any, origin: Any, inside: tuple[Any, ...]) -> Wire:
    args = typing.get_args(hint)
    if origin is typing.Annotated:
        return {**schema(args[0], inside), **_annotation(args[1:])}
    if origin is typing.Literal:
        return _enum(list(args))
    if origin in (typing.Union, types.UnionType):
        return _union([schema(each, inside) for each in args])
    if origin in (typing.Required, typing.NotRequired, getattr(typing, "ReadOnly", None)):
        return schema(args[0], inside)
    if origin is tuple and args and args[-1] is not Ellipsis:
        items = [schema(each, inside) for each in args]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema(args[1], inside)}
    if isinstance(origin, type) and issubclass(origin, Set):
        return {"type": "array", "items": schema(args[0], inside), "uniqueItems": True}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": schema(args[0], inside)}
    return _class(origin, inside)


def _class(hint: Any, inside: tuple[Any, ...]) -> Wire:
    inside, base = (*inside, hint), _base(hint)
    if issubclass(base, enum.Enum):
        return _described(_enum([member.value for member in base]), base)
    if callable(made := getattr(hint, "model_json_schema", None)):  # pydantic
        return typing.cast(Wire, made())
    if dataclasses.is_dataclass(base):
        hints = _resolved(base)
        rows = {field.name: (hints[field.name], _default(field)) for field in dataclasses.fields(base)}
        return _described(_object(rows, _described_fields(base), dataclasses.MISSING, inside), base)
    if typing.is_typeddict(base):
        return _described(_typed_dict(base, inside), base)
    if issubclass(base, str | int | float):
        return {"type": next(_NAMES[each] for each in base.__mro__ if each in _NAMES)}
    if isinstance(hint, typing.TypeVar):
        return schema(hint.__bound__, inside) if hint.__bound__ else {}
    if callable(meant := getattr(hint, "__supertype__", None)):  # NewType
        return schema(meant, inside)
    raise ConfigError(f"no JSON Schema for {hint!r}; give the tool its parameters by hand")


def _base(hint: Any) -> type[Any]:
    return hint if isinstance(hint, type) else object


def _typed_dict(hint: type[Any], inside: tuple[Any, ...]) -> Wire:
    required: frozenset[str] = hint.__required_keys__
    missing = dataclasses.MISSING
    rows = {name: (each, missing if name in required else None) for name, each in _resolved(hint).items()}
    return _object(rows, _described_fields(hint), missing, inside)


def _object(
    rows: Mapping[str, tuple[Any, Any]],
    described: Mapping[str, str],
    missing: Any,
    inside: tuple[Any, ...] = (),
) -> Wire:
    properties: Wire = {}
    required: list[str] = []
    for name, (hint, default) in rows.items():
        row = schema(hint, inside)
        if described.get(name) and "description" not in row:
            row["description"] = described[name]
        if default is missing:
            required.append(name)
        elif isinstance(default, str | int | float | bool) and not isinstance(default, enum.Enum):
            row["default"] = default
        properties[name] = row
    out: Wire = {"type": "object", "properties": properties}
    return {**out, "required": required} if required else out


def _enum(values: list[Any]) -> Wire:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    names = list(dict.fromkeys(_named(value) for value in plain))
    kind = names[0] if len(names) == 1 else names
    return {"type": kind, "enum": plain} if all(names) else {"enum": plain}


def _named(value: Any) -> str:
    return (
        "null"
        if value is None
        else next((_NAMES[base] for base in type(value).__mro__ if base in _NAMES), "")
    )


def _union(options: list[Wire]) -> Wire:
    """Plain types in one `type`, as every provider understands it; the rest as anyOf."""
    if all(list(option) == ["type"] and isinstance(option["type"], str) for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _annotation(notes: tuple[Any, ...]) -> Wire:
    """A string says what it is for; so does anything with a description (pydantic's Field)."""
    for note in notes:
        said = note if isinstance(note, str) else getattr(note, "description", None)
        if isinstance(said, str) and said:
            return {"description": said}
    return {}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return dataclasses.MISSING if field.default_factory is dataclasses.MISSING else None


def _described(made: Wire, hint: type[Any]) -> Wire:
    """With the first words of the class, where it has a docstring of its own."""
    own = hint.__doc__ or ""
    if not own or own.startswith(f"{hint.__name__}(") or own == enum.Enum.__doc__ or own == "An enumeration.":
        return made
    summary, _ = docstring(cleandoc(own))
    return {**made, "description": " ".join(summary.split())} if summary else made


def _described_fields(hint: type[Any]) -> dict[str, str]:
    return docstring(getdoc(hint) or "")[1]


def _resolved(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"a type hint of {getattr(thing, '__name__', thing)} cannot be resolved: {error}"
        ) from None
