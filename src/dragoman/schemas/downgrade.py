"""The JSON Schema of a tool, changed for a target: only as far as its `SchemaRules` demand.

What one target needs harms another, so each has rules of its own (G83); targets answer 400 to keywords that
they do not know (G77: CLIProxyAPI#2123, goai#108).

    all keywords     (Anthropic, OpenAI)  valid JSON Schema with an object at the root
    some keywords    (Gemini)             the honoured ones; other constraints go to the descriptions
    strict           (Anthropic, OpenAI)  closed objects and fewer keywords; OpenAI: every property required

An agent repeats its tools in every request, so results are cached by the encoded schema.
"""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_text
from dragoman.core.fields import describe
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.core.schema_rules import SchemaRules
from dragoman.schemas.merge import flatten
from dragoman.schemas.references import drop_broken_references, settle_references
from dragoman.schemas.strict import explicit, is_expressible, is_strict, tighten
from dragoman.schemas.subset import restrict
from dragoman.schemas.tidy import prune_all_required, tidy
from dragoman.schemas.walk import Finding, Report, is_object_schema, noted, types_of, without, words

_NOT_AT_ROOT = ("enum", "not", "const")


def fit(
    parameters: Wire | None, rules: SchemaRules, where: str, losses: Losses, *, strict: bool = False
) -> Wire:
    """`parameters` as the target takes them: the same object where nothing changes, else a new one."""
    if parameters is None or parameters == {}:
        parameters = {"type": "object", "properties": {}}
    try:
        encoded = jsontext.encode(parameters)
    except (ValueError, TypeError, RecursionError):  # a lone surrogate, endless nesting
        fitted, findings = _fit(parameters, rules, strict)
    else:
        result, findings = _fit_encoded(encoded, rules, strict)
        fitted = parameters if result is None else jsontext.decode(result)
    for kind, path, why, topic in findings:
        (losses.dropped if kind == "dropped" else losses.changed)(where + path, why, topic)
    return fitted


def can_be_strict(parameters: Wire | None) -> bool:
    """Whether a strict mode can express all that `parameters` allow. If not, strict is better left off."""
    return not parameters or _can_be_strict(jsontext.encode(parameters))


@cached_by_text
def _can_be_strict(encoded: bytes) -> bool:
    return is_expressible(tidy(jsontext.decode(encoded), "", Report()))


@cached_by_text
def _fit_encoded(
    encoded: bytes, rules: SchemaRules, strict: bool
) -> tuple[bytes | None, tuple[Finding, ...]]:
    """The result, None where nothing changes. Encoded, because a caller may write into what it gets."""
    given = jsontext.decode(encoded)
    fitted, findings = _fit(given, rules, strict)
    return None if fitted == given else jsontext.encode(fitted), findings


def _fit(given: Any, rules: SchemaRules, strict: bool) -> tuple[Wire, tuple[Finding, ...]]:
    report = Report()
    schema = tidy(given, "", report)
    if not is_object(schema):
        report.changed("", f"The schema of a tool is an object. This is {describe(given)}.")
        schema = {}
    mode = rules.strict if strict else None
    if mode and mode.all_required and is_object_schema(schema) and is_strict(schema):
        fitted = prune_all_required(_as_object(schema, rules, report), "", report)  # as it was declared
    elif mode:
        settled = settle_references(schema, report, mode.cycles, beside=True)
        fitted = tighten(_as_object(settled, rules, report), "", report, mode, rules.vendor)
    elif rules.keywords is not None:
        settled = settle_references(schema, report, rules.cycles, beside=False)
        fitted = restrict(_as_object(settled, rules, report), "", report, rules)
    else:
        rooted = _as_object(schema, rules, report)
        fitted = drop_broken_references(rooted, rooted, "", report)
        fitted = explicit(prune_all_required(fitted, "", report)) if rules.explicit else fitted
    return fitted, report.findings()


def _as_object(schema: Wire, rules: SchemaRules, report: Report) -> Wire:
    """The root is one object with properties, whatever it was made of."""
    notes: list[str] = []
    if any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf")):
        schema, notes = flatten(schema, schema, "", report)
    if rules.plain_root:
        for key in _NOT_AT_ROOT:
            if key in schema:
                notes.append(words(key, schema[key]))
                report.changed(f".{key}", "It is not allowed at the root. The description says it in words.")
        schema = without(schema, *_NOT_AT_ROOT)
    types = types_of(schema)
    if types and "object" not in types:
        notes.append(words("type", schema["type"]))
        report.changed(".type", "The arguments of a tool are an object.")
    schema = without(schema, "nullable")
    if schema.get("type") != "object":
        schema = {"type": "object", **without(schema, "type")}
    if "properties" not in schema:
        schema = {**schema, "properties": {}}
    return noted(schema, notes)
