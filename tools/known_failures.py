"""`python tools/known_failures.py`: fills the last column of docs/reference/known-failures.md, the tests.

A test belongs to a failure if its name, the key of its row or the id of its parameters contains the id (G01).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "known-failures.md"
COUNT = 125
ROW = re.compile(r"^\| G(\d+) \|(.*)\|([^|]*)\|$", re.MULTILINE)
ID = re.compile(r"(?<![A-Za-z0-9])G(\d{2,3})(?!\d)", re.IGNORECASE)


def covered() -> dict[int, list[str]]:
    """The test files of each failure, those of tests/gotchas first."""
    found: dict[int, list[str]] = {}
    for path in sorted(
        (ROOT / "tests").rglob("test_*.py"), key=lambda path: ("gotchas" not in path.parts, path)
    ):
        text = " ".join(names(ast.parse(path.read_text(encoding="utf-8")))).replace("_", " ")
        for number in {int(number) for number in ID.findall(text)}:
            found.setdefault(number, []).append(path.relative_to(ROOT).as_posix())
    return found


def names(tree: ast.AST) -> Iterator[str]:
    """Names of tests, keys of rows and ids of parameters; other text does not count."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                yield name
            case ast.Dict(keys=keys):
                yield from strings(keys)
            case ast.keyword(arg="ids" | "id", value=value):
                yield from strings(ast.walk(value))
            case _:
                pass


def strings(nodes: Iterator[ast.AST] | list[ast.expr | None]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def listed() -> dict[int, str]:
    """The failures of the page, each with the test that the page names."""
    return {int(row[1]): row[3].strip(" `") for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


def main() -> None:
    tests = covered()

    def filled(row: re.Match[str]) -> str:
        named = tests.get(int(row[1]), [])
        return f"| G{row[1]} |{row[2]}| {f'`{named[0]}`' if named else ''} |"

    PAGE.write_text(ROW.sub(filled, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
