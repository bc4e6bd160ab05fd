"""OpenAI's rules for schemas. Chat and Responses share them, and most compatible servers follow them."""

from __future__ import annotations

from dragoman.core.schema_rules import SchemaRules, StrictRules, keywords

STRICT_KEYWORDS = keywords(
    "$defs $ref type title description enum const anyOf items prefixItems properties required"
)
STRICT_FORMATS = keywords("date-time time date duration email hostname ipv4 ipv6 uuid")

OPENAI = SchemaRules(
    vendor="OpenAI",
    plain_root=True,
    explicit=True,
    strict=StrictRules(
        keywords=STRICT_KEYWORDS
        | keywords("multipleOf minimum maximum exclusiveMinimum exclusiveMaximum maxItems"),
        formats=STRICT_FORMATS,
        all_required=True,
    ),
)
