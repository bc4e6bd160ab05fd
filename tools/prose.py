"""`python tools/prose.py`: how each page reads, in figures.

Pages speak to a reader: "you", one idea a sentence, a full stop where a semicolon comes to mind, tables only
for look-up.
It prints, per 1,000 words, semicolons and "you", and the share of words in tables. Code does not count.
Generated pages and decisions are left out. It exits with 1 where a total is beyond its limit.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = {
    "docs/reference/tool-call-matrix.md",
    "docs/reference/known-failures.md",
    "docs/reference/losses.md",
}
CODE = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
INLINE = re.compile(r"`[^`\n]*`")
ADDRESS = re.compile(r"\]\([^)]*\)")
WORD = re.compile(r"[A-Za-z']+")
READER = re.compile(r"\byou(?:r|rs)?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Measures:
    words: int = 0
    semicolons: int = 0
    reader: int = 0
    table_words: int = 0

    def __add__(self, other: Measures) -> Measures:
        return Measures(
            self.words + other.words,
            self.semicolons + other.semicolons,
            self.reader + other.reader,
            self.table_words + other.table_words,
        )

    def per_thousand(self, count: int) -> float:
        return 1000 * count / max(self.words, 1)

    def __str__(self) -> str:
        semicolons, reader = self.per_thousand(self.semicolons), self.per_thousand(self.reader)
        tables = 100 * self.table_words / max(self.words, 1)
        return f"{self.words:5} words {semicolons:5.1f} semicolons {reader:5.1f} you {tables:3.0f} % tables"


def measure(text: str) -> Measures:
    prose = ADDRESS.sub("]", INLINE.sub("code", CODE.sub("", text)))
    rows = [line for line in prose.splitlines() if line.lstrip().startswith("|")]
    return Measures(
        words=len(WORD.findall(prose)),
        semicolons=prose.count(";"),
        reader=len(READER.findall(prose)),
        table_words=sum(len(WORD.findall(row)) for row in rows),
    )


def pages() -> dict[str, Measures]:
    """Every page that is written by hand, by its path."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = {file.relative_to(ROOT).as_posix(): file for file in files}
    kept = {name: file for name, file in names.items() if name not in LEFT_OUT and "/decisions/" not in name}
    return {name: measure(file.read_text()) for name, file in kept.items()}


def is_guide(name: str) -> bool:
    return name.endswith("README.md") or "/how-to/" in name or "/tutorial/" in name


def faults(measured: dict[str, Measures]) -> list[str]:
    """What is beyond its limit, over all pages and over those that lead a reader."""
    everything = sum(measured.values(), Measures())
    guides = sum((each for name, each in measured.items() if is_guide(name)), Measures())
    found: list[str] = []
    if everything.per_thousand(everything.semicolons) >= 3:
        found.append("3 or more semicolons per 1,000 words over all pages")
    if guides.per_thousand(guides.reader) <= 8:
        found.append('8 or fewer "you" per 1,000 words over README, tutorials and how-tos')
    if guides.table_words >= 0.15 * guides.words:
        found.append("15 % or more of the words of README, tutorials and how-tos stand in tables")
    return found


def main() -> int:
    measured = pages()
    for name, each in sorted(measured.items(), key=lambda item: -item[1].per_thousand(item[1].semicolons)):
        print(f"{name:55}{each}")
    print(f"{'all pages':55}{sum(measured.values(), Measures())}")
    print(f"{'guides':55}{sum((e for name, e in measured.items() if is_guide(name)), Measures())}")
    found = faults(measured)
    print(*found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
