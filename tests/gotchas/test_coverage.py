"""Each of G01-G113 has a case that carries its id, in the name of a test or in the key of a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
ID = re.compile(r"(?<![A-Za-z0-9])G(\d{2,3})(?!\d)")

# What no translation of one exchange can show, because it takes a clock, a store or knowledge of the model:
# G76  a model that takes no images gets none: profiles of models say which, and the gateway reads them
# G110 counting tokens is a route of its own, /v1/messages/count_tokens
GATEWAY = {76, 110}
# These have a case for what a translation does, and need a second one in the gateway:
# G24 keep-alives on a clock · G109 a store behind previous_response_id


def names(tree: ast.AST) -> Iterator[str]:
    """Names of tests, keys of rows and ids of parameters; prose does not count."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                yield name
            case ast.Dict(keys=keys):
                yield from (
                    key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
                )
            case ast.keyword(arg="ids" | "id", value=value):
                yield from (
                    inner.value
                    for inner in ast.walk(value)
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
                )
            case _:
                pass


def covered() -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in names(ast.parse(path.read_text())):
            for number in ID.findall(name.replace("_", " ")):
                found.setdefault(int(number), set()).add(path.name)
    return found


def test_every_gotcha_has_a_case() -> None:
    found = covered()
    missing = {number for number in range(1, 114) if number not in found} - GATEWAY
    assert [f"G{number:02}" for number in sorted(missing)] == []
    assert [f"G{number:02}" for number in GATEWAY & found.keys()] == [], "has a case: no longer an exception"
