"""What ripgrep does, where there is none: a program of its own, so that a bad pattern can be ended.

Reads {pattern, folder, include, most} as JSON and writes path NUL line colon text, as `rg --null` does.
It imports nothing of dragoman and runs as a script.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path

LARGEST = 20_000_000


def main() -> None:
    wish = json.load(sys.stdin)
    try:
        pattern = re.compile(wish["pattern"].encode())
    except re.error as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        sys.exit(2)
    found = 0
    for path in files(Path(wish["folder"]), wish["include"]):
        for number, line in matches(path, pattern):
            sys.stdout.buffer.write(os.fsencode(path) + b"\0%d:%s\n" % (number, line[:2000]))
            found += 1
            if found > wish["most"]:
                return
    sys.exit(0 if found else 1)


def files(folder: Path, include: str) -> Iterator[Path]:
    """Regular files in order of their paths; what is hidden is left out and no link is followed."""
    if folder.is_file():
        yield folder
        return
    wanted = [re.compile(translate(each)) for each in (include, f"*/{include}", include.removeprefix("**/"))]
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = Path(parent, name)
            said = path.relative_to(folder).as_posix()
            if path.is_file() and not path.is_symlink() and any(each.match(said) for each in wanted):
                yield path


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
