"""`python tools/diagrams.py`: writes the diagrams of the documentation, docs/**/*.svg, from the rows below.

A diagram is rows of boxes on a grid, each row with the direction of its arrows. Lines of a label are
separated by newlines, the first one is bold. A test checks that the files are up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, HEIGHT, GAP, LINE, MARGIN = 148, 64, 34, 15, 16
STYLE = (
    "text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1f2937}.b{font-weight:600}"
    "rect{fill:#eef2ff;stroke:#6366f1;rx:6}.w{fill:#f3f4f6;stroke:#9ca3af}"
    "path{stroke:#4b5563;stroke-width:1.5;fill:none;marker-end:url(#a)}"
)
ARROW = '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
HEAD = (
    f'<defs>{ARROW}<path d="M0 0 8 4 0 8z" style="fill:#4b5563;stroke:none;marker-end:none"/></marker></defs>'
)


@dataclass(frozen=True)
class Row:
    """Boxes from left to right; a label that begins with `*` is outside of dragoman."""

    arrow: str  # "→", "←" or "" between neighbours
    labels: tuple[str, ...]


DIAGRAMS = {
    "explanation/translation.svg": (
        Row(
            "→",
            (
                "*client\nits request",
                "decode\nclient's codec",
                "ledger\nnames, ids, order,\nschemas, state",
                "dialect (if any)\nrender",
                "encode\nupstream's codec",
                "*upstream",
            ),
        ),
        Row(
            "←",
            (
                "*client\nits reply",
                "encode\nclient's codec",
                "restorer\nnames, ids, kinds,\ntypes, stop reason",
                "dialect (if any)\nparse calls",
                "decode\nupstream's codec",
                "*upstream",
            ),
        ),
    ),
    "explanation/folds.svg": (
        Row(
            "→",
            (
                "*messages\nof the client",
                "decode\nits state: the count,\nan open row",
                "Identify\nids and names\nso far",
                "Pair\ncalls that wait\nfor results",
                "dialect (if any)\ncalls by id",
                "encode\nan entry that\nmay go on",
                "*entries\nfor the upstream",
            ),
        ),
        Row(
            "",
            (
                "*the other fields\nmodel, system text,\ntools, settings",
                "decode_head\nonce for the\nsame bytes",
                "names in use\nfacts of Identify",
                "Rename\nillegal names",
                "system in front\nfacts of encode",
                "encode_around\nhead, facts, entries",
                "*body\nfor the upstream",
            ),
        ),
        Row(
            "",
            (
                "memory\nthe layer around",
                "checkpoint\nall states after\nn messages",
                "key\nall folds",
                "next request\ngoes on from there",
            ),
        ),
    ),
    "explanation/stream.svg": (
        Row(
            "→",
            (
                "*bytes\nof the upstream",
                "framing\nframes",
                "decoder\nneutral events",
                "sequencer\none part at a time",
                "dialect (if any)\ncalls from text",
                "restorer\nnames, ids, types",
                "encoder\nclient's frames",
                "*bytes\nfor the client",
            ),
        ),
    ),
}


def drawn(rows: tuple[Row, ...]) -> str:
    width = max(len(row.labels) for row in rows) * (WIDTH + GAP) - GAP + 2 * MARGIN
    height = len(rows) * (HEIGHT + GAP) - GAP + 2 * MARGIN
    parts = [box for index, row in enumerate(rows) for box in drawn_row(row, MARGIN + index * (HEIGHT + GAP))]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    return "\n".join([opening, f"<style>{STYLE}</style>", HEAD, *parts, "</svg>\n"])


def drawn_row(row: Row, top: int) -> list[str]:
    parts: list[str] = []
    for index, label in enumerate(row.labels):
        left, lines = MARGIN + index * (WIDTH + GAP), label.removeprefix("*").split("\n")
        kind = ' class="w"' if label.startswith("*") else ""
        parts.append(f'<rect{kind} x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}"/>')
        first = top + HEIGHT / 2 - (len(lines) - 1) * LINE / 2 + 5
        for number, line in enumerate(lines):
            bold = "" if number else ' class="b"'
            parts.append(
                f'<text{bold} x="{left + WIDTH / 2:g}" y="{first + number * LINE:g}">{escape(line)}</text>'
            )
        if index and row.arrow:
            start, end = left - GAP + 3, left - 3
            start, end = (start, end) if row.arrow == "→" else (end, start)
            parts.append(f'<path d="M{start} {top + HEIGHT / 2:g}H{end}"/>')
    return parts


def main() -> None:
    for name, rows in DIAGRAMS.items():
        (DOCS / name).write_text(drawn(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
