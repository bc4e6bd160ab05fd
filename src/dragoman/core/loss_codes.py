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
    # What a request carries beside the neutral model
    "field.unknown.dropped": LossCode("minor", "A field that only the client's own protocol defines."),
}


def severity_of(code: str) -> Severity:
    known = CODES.get(code)
    return known.severity if known else "minor"
