"""A tool's JSON Schema, made digestible for a target: only as far as that target needs it, and never more.

    json    Anthropic: valid JSON Schema with an object at the root; strict: closed objects, fewer keywords
    openai  Chat and Responses: the same, arrays with items, null as a type; strict: every property required
    gemini  `parametersJsonSchema`: the honoured keywords, the rest in descriptions

Requests repeat their tools on every turn, so results are remembered by the printed schema.
"""

from __future__ import annotations

from typing import Any, Literal

from dragoman.core import jsontext
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Loss, Losses, LossKind
from dragoman.core.memory import of_short_texts
from dragoman.core.model import Wire
from dragoman.schemas.merge import flatten
from dragoman.schemas.openapi import to_gemini
from dragoman.schemas.references import mend, settle
from dragoman.schemas.strict import is_expressible, is_strict, loosen, tighten
from dragoman.schemas.tidy import prune_required, tidy
from dragoman.schemas.walk import Report, is_object_schema, noted, types_of, words

Target = Literal["json", "openai", "gemini"]
Told = tuple[tuple[LossKind, str, str], ...]


def fit(parameters: Wire | None, target: Target, where: str, losses: Losses, *, strict: bool = False) -> Wire:
    """`parameters` as `target` takes them: the same object where nothing needs to change, else a new one."""
    if parameters is None or parameters == {}:
        parameters = {"type": "object", "properties": {}}
    try:
        printed = jsontext.encode(parameters)
    except (ValueError, TypeError, RecursionError):  # a lone surrogate, endless nesting
        fitted, told = _fit(parameters, target, strict)
    else:
        result, told = _fitted(printed, target, strict)
        fitted = parameters if result is None else jsontext.decode(result)
    if told:
        losses.extend(Loss(kind, where + path, why) for kind, path, why in told)
    return fitted


def can_be_strict(parameters: Wire | None) -> bool:
    """Whether a strict mode can say all that `parameters` allow. If not, strict is better left off."""
    return not parameters or _strictable(jsontext.encode(parameters))


@of_short_texts
def _strictable(printed: bytes) -> bool:
    return is_expressible(tidy(jsontext.decode(printed), "", Report()))


@of_short_texts
def _fitted(printed: bytes, target: Target, strict: bool) -> tuple[bytes | None, Told]:
    """The result, None where nothing changes. Printed, because a caller may write into what it gets."""
    given = jsontext.decode(printed)
    fitted, told = _fit(given, target, strict)
    return None if fitted == given else jsontext.encode(fitted), told


def _fit(given: Any, target: Target, strict: bool) -> tuple[Wire, Told]:
    report = Report()
    schema = tidy(given, "", report)
    if not is_object(schema):
        report.changed("", f"the schema of a tool is an object, this is {describe(given)}")
        schema = {}
    match target:
        case "gemini":
            schema = _rooted(settle(schema, report, "optional", beside=False), target, report)
            fitted = to_gemini(schema, "", report)
        case "openai" if strict and is_object_schema(schema) and is_strict(schema):
            fitted = _rooted(schema, target, report)  # as its client declared it
        case "openai" if strict:
            schema = _rooted(settle(schema, report, "any", beside=True), target, report)
            fitted = tighten(schema, "", report, "openai")
        case "openai":
            schema = _rooted(schema, target, report)
            fitted = loosen(mend(schema, schema, "", report))
        case "json" if strict:
            schema = _rooted(settle(schema, report, "none", beside=True), target, report)
            fitted = tighten(schema, "", report, "json")
        case "json":
            schema = _rooted(schema, target, report)
            fitted = mend(schema, schema, "", report)
    return fitted, report.items()


def _rooted(schema: Wire, target: Target, report: Report) -> Wire:
    """The root is one object with properties, whatever it was made of."""
    notes: list[str] = []
    if any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf")):
        schema, notes = flatten(schema, schema, "", report)
    if target != "json":
        for key in ("enum", "not", "const"):
            if key in schema:
                notes.append(words(key, schema[key]))
                report.changed(f".{key}", "not at the root: it went to the description")
        schema = {key: value for key, value in schema.items() if key not in ("enum", "not", "const")}
    types = types_of(schema)
    if types and "object" not in types:
        notes.append(words("type", schema["type"]))
        report.changed(".type", "the arguments of a tool are an object")
    schema = {key: value for key, value in schema.items() if key != "nullable"}
    if schema.get("type") != "object":
        schema = {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
    if "properties" not in schema:
        schema = {**schema, "properties": {}}
    return prune_required(noted(schema, notes), "", report)
