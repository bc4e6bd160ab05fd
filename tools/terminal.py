"""`python tools/terminal.py`: runs the commands below and draws the session, docs/images/terminal.svg.

Each line appears after the one before it, as it would while somebody types. The picture loads nothing, and
its colours follow the reader's scheme.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

SOURCE = str(Path(__file__).parent.parent / "src")
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "terminal.svg"
WIDTH, LINE, MARGIN, COLUMNS = 860, 20, 20, 100
REQUEST = (
    '{"model": "m", "max_tokens": 9, "top_k": 40, "metadata": {"user_id": "ada"}, "service_tier": "auto",'
    ' "messages": [{"role": "user", "content": "hi"}]}'
)
# what is typed, and how many lines of the answer are shown
COMMANDS = (
    ('dragoman ask "Please read notes.md" --model demo:any --tool read_file --plain', 9),
    ("dragoman translate request --from anthropic --to gemini request.json > gemini.json", 3),
    ("dragoman demo --all | tail -4", 4),
)
STYLE = (
    "text{font:13px ui-monospace,monospace;fill:#1f2937;white-space:pre;opacity:0;animation:s 0s forwards}"
    "rect{fill:#f9fafb;stroke:#d1d5db}.c{fill:#4338ca;font-weight:600}.l{fill:#b45309}"
    "@keyframes s{to{opacity:1}}"
    "@media(prefers-color-scheme:dark){text{fill:#e5e7eb}rect{fill:#111827;stroke:#374151}.c{fill:#a5b4fc}"
    ".l{fill:#fbbf24}}@media(prefers-reduced-motion:reduce){text{opacity:1;animation:none}}"
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "notes.md").write_text("# Tides\n\nHigh water at noon.\n")
        (Path(folder) / "request.json").write_text(REQUEST)
        lines = [line for command, most in COMMANDS for line in record(command, most, folder)]
    PICTURE.write_text(draw(lines))


def record(command: str, most: int, folder: str) -> list[tuple[str, str, float]]:
    """Lines as (class, text, seconds to wait before it)."""
    program = f"{sys.executable} -m dragoman"
    run = subprocess.run(
        ["sh", "-c", command.replace("dragoman", program, 1)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": folder, "COLUMNS": str(COLUMNS), "PYTHONPATH": SOURCE},
    )
    shown = re.sub(r"\d+\.\d+ s", "0.01 s", run.stdout.decode()).splitlines()[:most]
    answer = [("l" if line.startswith(("dropped", "changed")) else "", line, 0.15) for line in shown]
    return [("c", f"$ {command}", 1.2), *answer, ("", "", 0.0)]


def draw(lines: list[tuple[str, str, float]]) -> str:
    height = len(lines) * LINE + 2 * MARGIN
    rows: list[str] = []
    at = 0.0
    for number, (kind, text, wait) in enumerate(lines):
        at += wait
        y = MARGIN + (number + 0.7) * LINE
        mark = f' class="{kind}"' if kind else ""
        if text:
            place = f'x="{MARGIN}" y="{y:.0f}" style="animation-delay:{at:.2f}s"'
            rows.append(f"<text{mark} {place}>{escape(text)}</text>")
    frame = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    title = "<title>Three commands of dragoman and what they print</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join([head, f"<style>{STYLE}</style>", title, frame, *rows, "</svg>\n"])


if __name__ == "__main__":
    main()
