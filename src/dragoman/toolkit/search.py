"""`search_file_content`: lines that match, found by ripgrep, or by a Python program with the same rules."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dragoman.client.tools import Tool
from dragoman.core import jsontext
from dragoman.toolkit import grep
from dragoman.toolkit.limits import Limits
from dragoman.toolkit.process import Finished, execute
from dragoman.toolkit.root import Refused, Root
from dragoman.toolkit.schema import integer, string, tool

_RG = ("--no-config", "--null", "--with-filename", "--line-number", "--no-heading", "--color=never")
_WIDE = ("--max-columns=2000", "--max-columns-preview", "--max-filesize=20M", "--sort=path", "--no-messages")
_ROOM = 50_000_000  # bytes of output of the search program; the result is limited by `matches`


def search_tools(root: Root, limits: Limits, ripgrep: str | None = None) -> list[Tool]:
    """`ripgrep`: its path; "" for none; None to search PATH."""
    program = shutil.which("rg") if ripgrep is None else ripgrep

    async def search_file_content(
        pattern: str, path: str | None = None, include: str | None = None, max_matches: int | None = None
    ) -> str:
        most = min(limits.matches if max_matches is None else max(max_matches, 1), limits.matches)
        where = root.inside(path or ".")
        if not where.exists():
            raise Refused(f"{path}: No such file or directory")
        query = _Query(pattern, where, include or "", most)
        finished = await _search(program, query, replace(limits, output=_ROOM))
        if finished.timed_out:
            raise Refused(f"the search took more than {limits.seconds:g} s")
        if finished.code not in (0, 1) and not finished.output:
            raise Refused(" ".join(finished.error.split()) or f"the search ended with {finished.code}")
        return _list(finished.output, most, limits.output)

    return [
        tool(
            search_file_content,
            "Search files for a regular expression; gives file:line: text for each match",
            ["pattern"],
            pattern=string("A regular expression"),
            path=string("The directory to search; default: the root"),
            include=string("Only files that match this glob: *.{ts,tsx}, src/**/*.py; !*.md excludes"),
            max_matches=integer("How many matches to give"),
        )
    ]


class _Query(NamedTuple):
    """`include`: a glob; empty: all files. `most` matches are given."""

    pattern: str
    where: Path
    include: str
    most: int


async def _search(program: str | None, query: _Query, limits: Limits) -> Finished:
    folder = query.where if query.where.is_dir() else query.where.parent
    if program:
        # a --glob that matches shows hidden files, too; the last one that matches wins
        chosen = [f"--glob={query.include}", "--glob=!.*"] if query.include else []
        argv = [
            program,
            *_RG,
            *_WIDE,
            f"--max-count={query.most + 1}",
            *chosen,
            f"--regexp={query.pattern}",
            "--",
            str(query.where),
        ]
        return await execute(argv, folder, limits)
    given = {**query._asdict(), "where": str(query.where)}
    script = [sys.executable, "-I", str(grep.__file__)]
    return await execute(script, folder, limits, given=jsontext.encode(given))


def _list(output: str, most: int, size: int) -> str:
    lines: list[str] = []
    for match in output.split("\n"):
        path, mark, rest = match.partition("\0")
        line, colon, text = rest.partition(":")
        if not mark or not colon:
            continue
        if len(lines) == most or size < 0:
            return "\n".join([*lines, f"[only the first {len(lines)} matches are shown]"])
        lines.append(f"{path}:{line}: {text.strip()}")
        size -= len(lines[-1])
    return "\n".join(lines) or "No matches found."
