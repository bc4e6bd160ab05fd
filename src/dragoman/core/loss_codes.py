"""The stable codes of losses, with what each one means.

A code is a topic and a kind: `tool.strict.dropped`. Programs match on codes, so a code is never renamed.
docs/reference/losses.md is generated from this table; a test compares it with the reports in the source.

Severity `material`: the model or the agent will behave differently; `minor`: a detail that somebody may miss;
`cosmetic`: another spelling of the same thing.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["material", "minor", "cosmetic"]


class LossCode(Struct, frozen=True):
    """`meaning` explains the loss to the reader of a log; `advice` says what can be done about it."""

    severity: Severity
    meaning: str
    advice: str = ""


CODES: dict[str, LossCode] = {
    # Declarations of tools
    "tool.schema.changed": LossCode(
        "minor",
        "The target does not take a keyword of the schema; the model reads the constraint in a description.",
        "Arguments are still checked against the schema that the client declared.",
    ),
    "tool.schema.dropped": LossCode("minor", "A part of the schema that cannot mean anything was left out."),
    "tool.schema.annotation.dropped": LossCode(
        "cosmetic", "A keyword that constrains nothing, such as $schema or $comment, was left out."
    ),
    "tool.strict.changed": LossCode(
        "material",
        "Strict mode was left off: it cannot express all that the schema allows.",
        "Close the schema (additionalProperties: false, a type for every value) to get strict mode back.",
    ),
    # What a request carries beside the neutral model
    "field.unknown.dropped": LossCode("minor", "A field that only the client's own protocol defines."),
}


def severity_of(code: str) -> Severity:
    known = CODES.get(code)
    return known.severity if known else "minor"
