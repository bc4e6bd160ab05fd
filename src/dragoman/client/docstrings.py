"""What a docstring says: what a thing is for, and what each of its parameters means."""

from __future__ import annotations

import re

_ARGS = re.compile(r"^(?:Args|Arguments|Parameters)\s*:\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r"^\s*:param\s+(?:[\w\[\], |.]+\s)?(\w+)\s*:\s*(.*)$")
_SECTION = re.compile(r"^(Returns|Raises|Yields|Examples?)\s*:\s*$")


def docstring(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the sections of a docstring, and what its Args say (Google's or Sphinx's way)."""
    summary: list[str] = []
    described: dict[str, str] = {}
    inside, indent, name = False, "", ""
    for line in text.splitlines():
        if found := _SPHINX.match(line):
            described[found[1]] = found[2].strip()
        elif _ARGS.match(line):
            inside, indent, name = True, "", ""
        elif inside and line.strip() and not line[0].isspace():
            break
        elif inside and (found := _ENTRY.match(line)) and (not indent or found[1] == indent):
            indent, name = found[1], found[2]
            described[name] = found[3].strip()
        elif inside and name and line.strip():
            described[name] = f"{described[name]} {line.strip()}".strip()
        elif not inside:
            if _SECTION.match(line) or line.startswith(":return"):
                break
            summary.append(line)
    return "\n".join(summary).strip(), described
