"""A replacement for ripgrep: a program of its own, so that a slow regular expression can be killed.

Reads {pattern, where, include, most} as JSON and writes path NUL line colon text, as `rg --null` does.
It imports nothing of dragoman and runs as a script.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LARGEST = 20_000_000


def main() -> None:
    query = json.load(sys.stdin)
    try:
        pattern = re.compile(query["pattern"].encode())
    except re.error as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        sys.exit(2)
    found = 0
    for path in files(Path(query["where"]), query["include"]):
        for number, line in matches(path, pattern):
            sys.stdout.buffer.write(os.fsencode(path) + b"\0%d:%s\n" % (number, line[:2000]))
            found += 1
            if found > query["most"]:
                return
    sys.exit(0 if found else 1)


def files(folder: Path, include: str) -> Iterator[Path]:
    """Regular files in order of their paths, without hidden ones; links are not followed."""
    if folder.is_file():
        yield folder
        return
    excludes, folders_only = include.startswith("!"), include.endswith("/")
    glob = glob_pattern(include.removeprefix("!").rstrip("/"))
    for parent, folders, names in os.walk(folder):
        prefix = Path(parent).relative_to(folder).as_posix().removeprefix(".")
        prefix = f"{prefix}/" if prefix else ""
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not (excludes and glob.fullmatch(prefix + name))
        )
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(parent, name)
            matched = not folders_only and glob.fullmatch(prefix + name) is not None
            wanted = not include or matched != excludes
            if wanted and path.is_file() and not path.is_symlink():
                yield path


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob of ripgrep: as in .gitignore, plus {a,b}. One without a slash matches a name at any depth."""
    out = "" if "/" in glob else "(?:.*/)?"
    rest, depth = glob.removeprefix("/"), 0
    while rest:
        if found := re.match(r"\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|[{},]|.", rest, re.DOTALL):
            token, rest = found[0], rest[found.end() :]
            depth += (token == "{") - (token == "}" and depth > 0)
            out += translate(token, depth)
    try:
        return re.compile(out + ")" * depth, re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))


def translate(token: str, depth: int) -> str:
    match token:
        case "**/":
            return "(?:.*/)?"
        case "/**":
            return "/.*"
        case "?":
            return "[^/]"
        case "{":
            return "(?:"
        case "}":
            return ")"
        case "," if depth:
            return "|"
        case _ if token.startswith("*"):
            return "[^/]*"
        case _ if token.startswith("[") and len(token) > 1:
            return re.sub(r"^\[[!^]", "[^", token).replace("\\", "\\\\")
        case _:
            return re.escape(token[-1])


def matches(path: Path, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    try:
        if path.stat().st_size > LARGEST:
            return
        data = path.read_bytes()
    except OSError:
        return
    if b"\0" in data[:8192]:
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if pattern.search(line):
            yield number, line


if __name__ == "__main__":
    main()
