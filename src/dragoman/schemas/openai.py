"""OpenAI's rules for schemas. Chat and Responses share them, and most compatible servers follow them."""

from __future__ import annotations

from dragoman.core.fields import word_set
from dragoman.core.schema_rules import SchemaRules, StrictRules

STRICT_KEYWORDS = word_set(
    "$defs $ref type title description enum const anyOf items prefixItems properties required"
)
STRICT_FORMATS = word_set("date-time time date duration email hostname ipv4 ipv6 uuid")

OPENAI = SchemaRules(
    vendor="OpenAI",
    plain_root=True,
    explicit=True,
    strict=StrictRules(
        keywords=STRICT_KEYWORDS
        | word_set("multipleOf minimum maximum exclusiveMinimum exclusiveMaximum maxItems"),
        formats=STRICT_FORMATS,
        all_required=True,
    ),
)
