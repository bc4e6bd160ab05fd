"""Saves a run: its figures as JSON, the plot, and the tables in the page about performance."""

import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.gateway.figures import Measurements
from bench.gateway.pairs import PAIRS
from bench.gateway.plot import plot
from bench.gateway.run import Results
from bench.gateway.table import report

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "bench/results/gateway.json"
PAGE = ROOT / "docs/explanation/performance.md"
PLOT = ROOT / "docs/explanation/performance.svg"
BY_TITLE = {pair.title: pair for pair in PAIRS}


def circumstances(module: str = "bench.gateway") -> str:
    """Measurements before a run begins, so that the load is that of other work."""
    command = " ".join(["python -m", module, *sys.argv[1:]])
    load = os.getloadavg()[0]
    python = platform.python_version()
    return f"`{command}`, {os.cpu_count()} cores, Python {python}, load average of other work {load:.1f}"


def save(results: Results, made_by: str) -> None:
    FIGURES.parent.mkdir(exist_ok=True)
    kept = {name: encode_taken(taken) for name, taken in results.items()}
    made = {"made_by": made_by, "gateways": kept}
    FIGURES.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


def saved() -> tuple[Results, str]:
    made = json.loads(FIGURES.read_text())
    return {name: decode_taken(kept) for name, kept in made["gateways"].items()}, made["made_by"]


def encode_taken(taken: Measurements) -> dict[str, Any]:
    return {**asdict(taken), "pairs": {pair.title: values for pair, values in taken.pairs.items()}}


def decode_taken(kept: dict[str, Any]) -> Measurements:
    pairs = {BY_TITLE[title]: values for title, values in kept["pairs"].items()}
    return Measurements(kept["version"], kept["values"], pairs, kept["notes"])


def publish(results: Results, made_by: str) -> None:
    publish_between("figures", f"{report(results)}\n\nMade by {made_by}.")
    PLOT.write_text(plot(results))


def publish_between(name: str, text: str) -> None:
    """Replace what stands between the two comments of that name in the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
