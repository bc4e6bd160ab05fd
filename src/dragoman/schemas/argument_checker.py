"""One declared schema, compiled to check and repair the arguments of calls.

Values are split as raw JSON, so that what is not repaired keeps its spelling: numbers, escapes, order (G68:
CLIProxyAPI#4255, bifrost#3994). Repaired are values of another type that spell what is declared (G65, G120).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import jsonschema_rs
import msgspec

from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.schemas.references import drop_broken_references
from dragoman.schemas.strict import explicit
from dragoman.schemas.tidy import prune_all_required, tidy
from dragoman.schemas.walk import Report, children, resolve, types_of, without

BROKEN = object()
_HEAVIEST = 20_000  # subschemas, references written out; what is heavier takes too long to check
_LARGEST_INTEGER = 10**30
_FRACTION = re.compile(r"\.0+(?!\d)|\d[eE]")  # what may spell a whole number
# plain floats: the checker of schemas knows no others
_plain = msgspec.json.Decoder(float_hook=float)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
Refs = frozenset[str]


def read(text: str | bytes) -> Any:
    """What `text` spells, or BROKEN."""
    try:
        return _plain.decode(text)
    except (ValueError, RecursionError):
        return BROKEN


class Checker:
    """`typed`: some property is more than plain text. `optional`: some property may be left out."""

    def __init__(self, parameters: Any) -> None:
        schema = tidy(parameters, "", Report())
        schema = without(schema, "$schema", "$id") if is_object(schema) else {}
        settled = drop_broken_references(schema, schema, "", Report())
        schema = explicit(prune_all_required(settled, "", Report()))
        self._root: Wire = schema
        self._validators: dict[int, Any] = {}
        self._validator = self._compile(schema) if _weight(schema, schema, {}) <= _HEAVIEST else None
        properties = schema.get("properties", {})
        self.typed = any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf")) or not all(
            _is_text(child) for child in (*properties.values(), schema.get("additionalProperties", True))
        )
        self.optional = not properties.keys() <= set(schema.get("required", ()))
        self._whole = "integer" in str(schema)

    def repair(self, text: str, value: Any) -> tuple[str, str]:
        """`text`, which encodes the object `value`, repaired so that it fits, and why; or as it is."""
        if self._validator is None:
            return text, ""
        if self._validator.is_valid(value) and not (self._whole and _FRACTION.search(text)):
            return text, ""
        why: dict[str, None] = {}
        try:
            repaired = self._fix(text.strip(), self._root, "", why, frozenset())
        except RecursionError:
            return text, ""
        if not why or not self._validator.is_valid(read(repaired)):
            return text, ""
        listed = list(why)
        more = [f"{len(listed) - 5} more were converted."] if len(listed) > 5 else []
        return repaired, " ".join([*listed[:5], *more])

    def _compile(self, schema: Wire) -> Any:
        try:
            return jsonschema_rs.Draft202012Validator(schema, validate_formats=False, offline=True)
        except (ValueError, RecursionError):
            return None

    def _fits(self, schema: Any, text: str) -> bool | None:
        """Whether a value fits a schema that stands in the root; None where nobody can tell."""
        if not is_object(schema):
            return schema is not False
        if id(schema) not in self._validators:
            names = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
            self._validators[id(schema)] = self._compile(names | schema)
        validator = self._validators[id(schema)]
        return None if validator is None else validator.is_valid(read(text))

    def _fix(self, text: str, schema: Any, path: str, why: dict[str, None], refs: Refs) -> str:
        """The value `text` as `schema` wants it. `refs`: those followed since the last step into a value."""
        if not is_object(schema):
            return text
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in refs:
            text = self._fix(text, resolve(self._root, ref), path, why, refs | {ref})
        for member in schema.get("allOf", ()):
            text = self._fix(text, member, path, why, refs)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                text = self._fix_union(text, schema[keyword], path, why, refs)
        text = _fix_scalar(text, schema, path, why)
        match text[:1]:
            case "{" if is_object(schema.get("properties")) or is_object(schema.get("additionalProperties")):
                return self._fix_object(text, schema, path, why)
            case "[" if is_object(schema.get("items")) or "prefixItems" in schema:
                return self._fix_array(text, schema, path, why)
            case _:
                return text

    def _fix_union(self, text: str, branches: list[Any], path: str, why: dict[str, None], refs: Refs) -> str:
        """Repaired only where exactly one branch takes the result."""
        fitting = [branch for branch in branches if self._fits(branch, text)]
        tried = fitting or branches
        results: dict[str, dict[str, None]] = {}
        for branch in tried:
            reasons: dict[str, None] = {}
            repaired = self._fix(text, branch, path, reasons, refs)
            if self._fits(branch, repaired):
                results.setdefault(repaired, reasons)
        if len(results) != 1:
            return text
        repaired, reasons = next(iter(results.items()))
        why.update(reasons)
        return repaired

    def _fix_object(self, text: str, schema: Wire, path: str, why: dict[str, None]) -> str:
        members = _object.decode(text)
        properties, required = schema.get("properties", {}), schema.get("required", ())
        changed = False
        for name, raw in list(members.items()):
            child = properties.get(name, schema.get("additionalProperties"))
            given = bytes(raw).decode()
            optional = name in properties and name not in required
            if optional and given == "null" and self._fits(child, given) is False:
                del members[name]
                why[f"{path}{name} was null, and may be left out."] = None
                changed = True
                continue
            repaired = self._fix(given, child, f"{path}{name}.", why, frozenset())
            if repaired != given:
                members[name] = msgspec.Raw(repaired.encode())
                changed = True
        return msgspec.json.encode(members).decode() if changed else text

    def _fix_array(self, text: str, schema: Wire, path: str, why: dict[str, None]) -> str:
        members = _array.decode(text)
        first: list[Any] = schema.get("prefixItems", [])
        given = [bytes(raw).decode() for raw in members]
        repaired = [
            self._fix(
                one, first[at] if at < len(first) else schema.get("items"), f"{path}{at}.", why, frozenset()
            )
            for at, one in enumerate(given)
        ]
        return f"[{','.join(repaired)}]" if repaired != given else text


def _fix_scalar(text: str, schema: Wire, path: str, why: dict[str, None]) -> str:
    """A value that spells what the schema wants, in another type."""
    types = types_of(schema)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    kind = _KINDS.get(text[:1], "number")
    repaired = None
    if is_array(values):
        repaired = _listed(text, kind, values)
    elif kind == "string" and types and "string" not in types:
        repaired = _from_text(read(text), types)
    elif kind == "number" and "integer" in types and "number" not in types:
        repaired = _integer(text)
    if repaired is None or repaired == text:
        return text
    wanted = "a listed value" if is_array(values) else " or ".join(types)
    given = "text" if kind == "string" else text[:40]
    why[f"{path.rstrip('.')} was {given}, and the schema declares {wanted}."] = None
    return repaired


def _from_text(text: Any, types: list[str]) -> str | None:
    """The value that `text` spells, if it is of one of `types`."""
    if not isinstance(text, str):
        return None
    spelled = {"True": "true", "False": "false"}.get(text, text.strip())
    if read(spelled) is BROKEN:
        return None
    kind = _KINDS.get(spelled[:1], "number")
    if kind == "number" and "number" not in types:
        return _integer(spelled) if "integer" in types else None
    return spelled if kind in types else None


def _integer(text: str) -> str | None:
    """A whole number without a fraction or exponent: 10 for 10.0."""
    if text.lstrip("-").isdecimal():
        return text
    number = Decimal(text)
    return str(int(number)) if abs(number) < _LARGEST_INTEGER and number == int(number) else None


def _listed(text: str, kind: str, values: list[Any]) -> str | None:
    """The listed value that `text` spells in the wrong type: a number listed as text, or the reverse."""
    value = read(text)
    if any(_same(value, listed) for listed in values):
        return None
    if kind == "string":
        inner = read(value)
        return value.strip() if any(_same(inner, listed) for listed in values) else None
    return f'"{text}"' if kind in ("number", "boolean") and text in values else None


def _same(one: Any, two: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return one == two and isinstance(one, bool) == isinstance(two, bool)


def _is_text(schema: Any) -> bool:
    """Whether any text fits and nothing but text could be meant; null may stand beside it."""
    if not is_object(schema):
        return True
    if schema.keys() & {"$ref", "allOf", "oneOf"}:
        return False
    if "anyOf" in schema:
        return {"type": "string"} in schema["anyOf"] and all(
            branch == {"type": "null"} or _is_text(branch) for branch in schema["anyOf"]
        )
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if any(not isinstance(value, str) or read(value) is not BROKEN for value in values):
        return False
    types = types_of(schema)
    structure = schema.keys() & {"properties", "items", "prefixItems"}
    return not structure and (not types or ("string" in types and {"string", "null"} >= {*types}))


def _weight(schema: Any, root: Wire, known: dict[str, int]) -> int:
    """How many subschemas a check may pass through. A cycle counts once: the value ends it."""
    if not is_object(schema):
        return 1
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in known:
        known[ref] = 1
        known[ref] = _weight(resolve(root, ref), root, known)
    inner = [child for keyword, child in children(schema) if keyword not in ("$defs", "definitions")]
    followed = known[ref] if isinstance(ref, str) else 0
    return 1 + followed + sum(_weight(child, root, known) for child in inner)
