"""JSON for people: what fits stays on one line, the rest is broken open, so that a diff shows the change."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 140


def pretty(value: Any, indent: int = 0, before: int = 0) -> str:
    """`before` counts what stands on the line already, a key for example."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + before + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + 2
    if isinstance(value, dict):
        keys = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value]
        items = [key + pretty(item, inner, len(key)) for key, item in zip(keys, value.values(), strict=True)]
    else:
        items = [pretty(item, inner) for item in value]
    body = ",\n".join(" " * inner + item for item in items)
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{body}\n{' ' * indent}{end}"
