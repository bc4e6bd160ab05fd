"""The JSON Schema that a target takes in the declaration of a tool: rules that a protocol states as a value.

`dragoman.schemas` holds the mechanism. A new protocol brings its own rules and changes nothing there.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Cycles = Literal["any", "optional", "none"]  # which references back to themselves a target takes


class StrictRules(Struct, frozen=True, kw_only=True):
    """A mode that holds calls to their schema. It closes every object: only declared properties are allowed.

    `formats`: the values of `format` that it takes. `largest_min_items`: None where any number is taken.
    `all_required`: an optional property becomes a nullable one.
    """

    keywords: frozenset[str]
    formats: frozenset[str]
    largest_min_items: int | None = None
    all_required: bool = False
    cycles: Cycles = "any"


class SchemaRules(Struct, frozen=True, kw_only=True, cache_hash=True):
    """By default a target takes all of JSON Schema, with an object at the root.

    `vendor`: the name in the reasons of losses. `keywords`: the ones it honours, None for all; a constraint
    in any other goes to the description. `plain_root`: enum, const and not are refused at the root.
    `explicit`: arrays say what their items are, null is a type and `true` is spelled {}.
    `largest_max_items`: beyond it a request is refused.
    """

    vendor: str = "the target"
    keywords: frozenset[str] | None = None
    cycles: Cycles = "any"
    plain_root: bool = False
    explicit: bool = False
    largest_max_items: int | None = None
    strict: StrictRules | None = None
