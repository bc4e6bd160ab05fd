"""`python tools/loss_table.py`: writes the table of loss codes into docs/reference/losses.md.

The rows come from src/dragoman/core/loss_codes.py. A test checks that the page is up to date.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.core.loss_codes import CODES

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "losses.md"
MARK = "<!-- generated: everything below -->\n"


def generated() -> str:
    lines = ["| code | severity | meaning | advice |", "|---|---|---|---|"]
    for code, row in sorted(CODES.items()):
        cells = [f"`{code}`", row.severity, *(text.replace("|", "\\|") for text in (row.meaning, row.advice))]
        lines.append(f"| {' | '.join(cells)} |".replace("  |", " |"))
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page as it should be."""
    written, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return written + MARK + "\n" + generated()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
