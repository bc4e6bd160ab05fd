"""JSON Schema from type hints and docstrings of functions and classes.

Types of pydantic and msgspec are described by their own generators, everything else here.
"""

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
from functools import partial
from importlib import import_module
from inspect import Parameter, cleandoc, getdoc, signature
from itertools import count
from typing import Any

import msgspec

from dragoman.client.context import RunContext
from dragoman.client.docstrings import docstring
from dragoman.core import jsontext
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
    frozenset: {"type": "array", "items": {}, "uniqueItems": True},
    bytes: {"type": "string", "contentEncoding": "base64"},
    pathlib.Path: {"type": "string"},
    decimal.Decimal: {"type": "string"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
}
_DEFINITION = "#/$defs/"
_PYDANTIC_HOOKS = ("__pydantic_core_schema__", "__get_pydantic_core_schema__")
# Attribute of an annotation -> keyword of JSON Schema
_KEYWORDS = {
    "description": "description",
    "title": "title",
    "examples": "examples",
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_NAMES: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function with their types, without `self`, `cls` or a RunContext.

    Positional-only ones are refused.
    """
    hints, hidden = _resolve_hints(function), {context_parameter(function), *fixed_arguments(function)}
    found: dict[str, Any] = {}
    for index, (name, parameter) in enumerate(signature(function).parameters.items()):
        if (index == 0 and is_method(function)) or name in hidden:
            continue
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise ConfigError(f"{name} is positional only. A model calls by name.")
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            hint = hints.get(name, Any)
            found[name] = typing.Annotated[hint, parameter.default] if is_field(parameter.default) else hint
    return found


def is_field(default: Any) -> bool:
    """Whether a default is a Field of pydantic, as in `days: int = Field(1, ge=1)`."""
    return type(default).__name__ == "FieldInfo" and type(default).__module__.startswith("pydantic.")


def default_of(parameter: Parameter) -> Any:
    """The default of a parameter, which may be in a Field; Parameter.empty where it is required."""
    default = parameter.default
    if not is_field(default):
        return default
    return Parameter.empty if default.is_required() else default.get_default(call_default_factory=True)


def fixed_arguments(function: Callable[..., Any]) -> set[str]:
    """The arguments that functools.partial has set by name, which are not for the model."""
    return set(function.keywords) if isinstance(function, partial) else set()


def unwrap_function(function: Any) -> Any:
    """What has the name, the docstring and the type hints of a callable: of a partial, of an instance."""
    while isinstance(function, partial):
        function = function.func
    is_instance = callable(function) and not hasattr(function, "__name__")
    return type(function).__call__ if is_instance else function


def context_parameter(function: Callable[..., Any]) -> str:
    """The name of the first parameter where it is a RunContext, which the caller gives, not the model."""
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables of C code have no signature
        return ""
    first = parameters[1:2] if is_method(function) else parameters[:1]
    if not first or not any("RunContext" in str(each.annotation) for each in parameters):
        return ""
    name = first[0].name
    hint = _resolve_hints(function).get(name)
    return name if hint is RunContext or typing.get_origin(hint) is RunContext else ""


def is_method(function: Callable[..., Any]) -> bool:
    """Whether this is a function of a class body, not bound to an instance yet."""
    first = next(iter(signature(function).parameters.values()), None)
    return first is not None and first.name in ("self", "cls") and first.annotation is Parameter.empty


def function_schema(function: Callable[..., Any]) -> Wire:
    """The parameters of `function` as an object schema; a default makes one optional."""
    _, described = docstring(getdoc(unwrap_function(function)) or "")
    parameters = signature(function).parameters
    rows = {name: (hint, default_of(parameters[name])) for name, hint in hints_of(function).items()}
    builder = SchemaBuilder()
    return builder.add_definitions(builder.object(rows, described, Parameter.empty))


def schema(hint: Any) -> Wire:
    """The schema of one type."""
    builder = SchemaBuilder()
    return builder.add_definitions(builder.build(hint))


def pydantic_adapter(hint: Any) -> Any:
    """The TypeAdapter of a type that is made for pydantic, else None."""
    return any_adapter(hint) if mentions_pydantic(hint) else None


def mentions_pydantic(hint: Any) -> bool:
    """Whether the type, or an argument of it, is a class of pydantic or annotated for it."""
    if isinstance(hint, type) and any(hasattr(hint, hook) for hook in _PYDANTIC_HOOKS):
        return True
    notes = getattr(hint, "__metadata__", ())
    if any(type(note).__module__.split(".")[0] in ("pydantic", "annotated_types") for note in notes):
        return True
    return any(mentions_pydantic(each) for each in typing.get_args(hint))


def any_adapter(hint: Any) -> Any:
    """pydantic's TypeAdapter of any type; None where pydantic is not installed or does not know the type."""
    try:
        pydantic = import_module("pydantic")
    except ImportError:  # annotated_types can be installed alone
        return None
    try:
        return pydantic.TypeAdapter(hint)
    except pydantic.errors.PydanticUserError:  # msgspec structs; typing.TypedDict before Python 3.12
        return None


class SchemaBuilder:
    """Builds schemas of types that may share definitions.

    pydantic and msgspec put nested models under `$defs` of their own schema, and refer to them from the root.
    As part of a larger schema those definitions must move to the root of that: `definitions` collects them.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._open: list[Any] = []  # the classes that are being described, outermost first

    def add_definitions(self, made: Wire) -> Wire:
        return {**made, "$defs": self.definitions} if self.definitions else made

    def build(self, hint: Any) -> Wire:
        if hint in self._open:  # recursive: described to this depth only
            return {"type": "object"}
        if isinstance(hint, Mapping):  # a schema already
            return dict(typing.cast(Wire, hint))
        try:
            if hint in _PLAIN:
                return dict(_PLAIN[hint])
        except TypeError:
            pass
        if type(hint).__name__ == "TypeAliasType":  # type X = …, since Python 3.12
            return self.build(hint.__value__)
        origin = typing.get_origin(hint)
        if origin:
            return self._generic(hint, origin)
        self._open.append(hint)
        try:
            return self._class(hint)
        finally:
            self._open.pop()

    def object(self, rows: Mapping[str, tuple[Any, Any]], described: Mapping[str, str], missing: Any) -> Wire:
        """The schema of an object from its properties: name -> type and default (`missing`: required)."""
        properties: Wire = {}
        required: list[str] = []
        for name, (hint, default) in rows.items():
            row = self.build(hint)
            if described.get(name) and "description" not in row:
                row["description"] = described[name]
            if default is missing:
                required.append(name)
            elif isinstance(default, str | int | float | bool) and not isinstance(default, enum.Enum):
                row["default"] = default
            properties[name] = row
        out: Wire = {"type": "object", "properties": properties}
        return {**out, "required": required} if required else out

    def _generic(self, hint: Any, origin: Any) -> Wire:
        args = typing.get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(hint, args[0], args[1:])
        if origin is typing.Literal:
            return _enum(list(args))
        if origin in (typing.Union, types.UnionType):
            return _union([self.build(each) for each in args])
        if origin in (typing.Required, typing.NotRequired, getattr(typing, "ReadOnly", None)):
            return self.build(args[0])
        if origin is tuple and args and args[-1] is not Ellipsis:
            return self._tuple(args)
        if isinstance(origin, type):
            return self._container(hint, typing.cast(type[Any], origin), args)
        return self.build(origin)

    def _container(self, hint: Any, origin: type[Any], args: Sequence[Any]) -> Wire:
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.build(args[1])}
        if issubclass(origin, Set):
            return {"type": "array", "items": self.build(args[0]), "uniqueItems": True}
        if issubclass(origin, Sequence):
            return {"type": "array", "items": self.build(args[0])}
        return self._struct(hint) if issubclass(origin, msgspec.Struct) else self.build(origin)

    def _annotated(self, hint: Any, inner: Any, notes: tuple[Any, ...]) -> Wire:
        if adapter := pydantic_adapter(hint):
            made = self._adopt(adapter.json_schema())
        else:
            made = self.build(inner)
        return {**made, **_constraints(notes, made)}

    def _tuple(self, hints: Sequence[Any]) -> Wire:
        items = [self.build(each) for each in hints]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _class(self, hint: Any) -> Wire:
        base: type[Any] = hint if isinstance(hint, type) else object
        if issubclass(base, enum.Enum):
            return _describe(_enum([member.value for member in base]), base)
        if adapter := pydantic_adapter(hint):
            return self._adopt(adapter.json_schema())
        if callable(made := getattr(hint, "model_json_schema", None)):  # what has pydantic's methods
            return self._adopt(typing.cast(Wire, made()))
        if issubclass(base, msgspec.Struct):
            return self._struct(base)
        if dataclasses.is_dataclass(base):
            return _describe(self._dataclass(base), base)
        if typing.is_typeddict(base):
            return _describe(self._typed_dict(base), base)
        if "_fields" in vars(base) and tuple in base.__mro__:  # NamedTuple
            return self._tuple(list(_resolve_hints(base).values()))
        if issubclass(base, str | int | float):
            return {"type": next(_NAMES[each] for each in base.__mro__ if each in _NAMES)}
        return self._stand_in(hint)

    def _stand_in(self, hint: Any) -> Wire:
        """A name that stands for another type."""
        if isinstance(hint, typing.TypeVar):
            return self.build(hint.__bound__) if hint.__bound__ else {}
        if meant := getattr(hint, "__supertype__", None):  # NewType
            return self.build(meant)
        raise ConfigError(f"There is no JSON Schema for {hint!r}. Give the tool its parameters by hand.")

    def _dataclass(self, hint: type[Any]) -> Wire:
        hints = _resolve_hints(hint)
        rows = {field.name: (hints[field.name], _default(field)) for field in dataclasses.fields(hint)}
        return self.object(rows, _describe_fields(hint), dataclasses.MISSING)

    def _typed_dict(self, hint: type[Any]) -> Wire:
        required: frozenset[str] = hint.__required_keys__
        missing = dataclasses.MISSING
        rows = {
            name: (each, missing if name in required else None) for name, each in _resolve_hints(hint).items()
        }
        return self.object(rows, _describe_fields(hint), missing)

    def _struct(self, hint: Any) -> Wire:
        """msgspec writes every struct as a definition; the outermost stands inline unless it is recursive."""
        (made,), definitions = msgspec.json.schema_components(
            [hint], schema_hook=self.build, ref_template=_DEFINITION + "{name}"
        )
        name = str(made.get("$ref", "")).removeprefix(_DEFINITION)
        if name in definitions and f'"{made["$ref"]}"' not in jsontext.dumps(definitions):
            made = definitions.pop(name)
        return self._adopt({**made, "$defs": definitions})

    def _adopt(self, made: Wire) -> Wire:
        """`made` with its definitions moved to ours, all renamed where one of the names is taken."""
        definitions: Wire = made.get("$defs", {})
        made = {key: value for key, value in made.items() if key != "$defs"}
        for number in count(1):
            names = {name: name if number == 1 else f"{name}_{number}" for name in definitions}
            moved = {names[name]: _rename(each, names) for name, each in definitions.items()}
            if all(self.definitions.get(name, each) == each for name, each in moved.items()):
                self.definitions.update(moved)
                return typing.cast(Wire, _rename(made, names))
        raise AssertionError("count does not end")


def _rename(node: Any, names: Mapping[str, str]) -> Any:
    """`node` with references (also in a `discriminator`) to the definitions under their new names."""
    match node:
        case dict():
            return {key: _rename(value, names) for key, value in typing.cast(Wire, node).items()}
        case list():
            return [_rename(value, names) for value in typing.cast(list[Any], node)]
        case str() if node.startswith(_DEFINITION):
            name = node.removeprefix(_DEFINITION)
            return _DEFINITION + names.get(name, name)
        case _:
            return node


def _enum(values: list[Any]) -> Wire:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    bases = [[_NAMES[base] for base in type(value).__mro__ if base in _NAMES] for value in plain]
    names = list(dict.fromkeys(each[0] if each else "" for each in bases))
    kind = names[0] if len(names) == 1 else names
    return {"type": kind, "enum": plain} if all(names) else {"enum": plain}


def _union(options: list[Wire]) -> Wire:
    """Plain types in one `type`, as every provider understands it; the rest as anyOf."""
    if all(list(option) == ["type"] and isinstance(option["type"], str) for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _constraints(notes: tuple[Any, ...], made: Wire) -> Wire:
    """Keywords of annotations: a string is a description; msgspec.Meta, pydantic's Field and annotated_types
    call their limits by the same names."""
    out: Wire = {}
    lengths = _LENGTHS.get(str(made.get("type")), "")
    for note in notes:
        for each in (note, *getattr(note, "metadata", ())):  # pydantic's Field keeps its limits in a list
            if isinstance(each, str):
                out.setdefault("description", each)
                continue
            for name, keyword in _KEYWORDS.items():
                if isinstance(value := getattr(each, name, None), str | int | float | list):
                    out.setdefault(keyword, value)
            for name, keyword in (("min_length", f"min{lengths}"), ("max_length", f"max{lengths}")):
                if lengths and isinstance(value := getattr(each, name, None), int):
                    out.setdefault(keyword, value)
            out.update(getattr(each, "extra_json_schema", None) or {})  # msgspec.Meta
    return out


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return dataclasses.MISSING if field.default_factory is dataclasses.MISSING else None


def _describe(made: Wire, hint: type[Any]) -> Wire:
    """With the first words of the class, where it has a docstring of its own."""
    own = hint.__doc__ or ""
    if not own or own.startswith(f"{hint.__name__}(") or own == enum.Enum.__doc__ or own == "An enumeration.":
        return made
    summary, _ = docstring(cleandoc(own))
    return {**made, "description": " ".join(summary.split())} if summary else made


def _describe_fields(hint: type[Any]) -> dict[str, str]:
    return docstring(getdoc(hint) or "")[1]


def _resolve_hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(unwrap_function(thing), include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"a type hint of {getattr(thing, '__name__', thing)} cannot be resolved: {error}"
        ) from None
