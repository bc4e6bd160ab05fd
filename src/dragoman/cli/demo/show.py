"""A cycle on the screen: both wires side by side where there is room, else one below the other."""

from __future__ import annotations

import shutil
import sys
from itertools import zip_longest
from typing import Any

import click

from dragoman.cli.demo.cycle import Cycle, Sheet, Step
from dragoman.cli.demo.layout import Note, lay_out, lay_out_stream

PIPED = 100  # columns where nobody's terminal says otherwise
SIDE_BY_SIDE = 100  # columns from which two wires fit


def show(cycle: Cycle) -> None:
    """With rich on a terminal, plainly anywhere else; what is piped is always the same."""
    if not sys.stdout.isatty():
        show_plain(cycle, PIPED, beside=False)
        return
    width = shutil.get_terminal_size().columns
    try:
        from dragoman.cli.demo.colour import show_rich
    except ImportError:
        show_plain(cycle, width, beside=width >= SIDE_BY_SIDE)
    else:
        show_rich(cycle, width, beside=width >= SIDE_BY_SIDE)


def show_plain(cycle: Cycle, width: int, beside: bool) -> None:
    click.echo(title(cycle))
    for number, step in enumerate(cycle.steps, 1):
        click.echo(f"\n{number}. {step.title}")
        draw = _beside if beside else _stacked
        for line in draw(cycle, step, width):
            click.echo(line.rstrip())
        for line in said_losses(step):
            click.echo(f"  {line}")
    click.echo()
    for mark, what in verdicts(cycle):
        click.echo(f"{mark} {what}")


def title(cycle: Cycle) -> str:
    return f"An agent that speaks {cycle.client}, a model that speaks {cycle.upstream}."


def headings(cycle: Cycle, step: Step) -> tuple[str, str]:
    client = f"agent · {cycle.client}"
    upstream = f"model · {cycle.upstream}"
    return (
        (f"{client}  sends →", f"→ {upstream}  gets")
        if step.asks
        else (f"{client}  gets ←", f"← {upstream}  sends")
    )


def said_losses(step: Step) -> list[str]:
    return [f"{loss.kind} {loss.where}: {loss.why}" for loss in step.losses] or ["nothing lost"]


def verdicts(cycle: Cycle) -> list[tuple[str, str]]:
    return [("✓" if check.good else "✗", check.what) for check in cycle.checks]


def sheet_lines(sheet: Sheet, width: int) -> list[str]:
    first = [f"POST {sheet.path}"[:width]] if sheet.path else []
    if isinstance(sheet.body, bytes):
        return [*first, *lay_out_stream(sheet.body, width)]
    return [*first, *lay_out(_noted(sheet), width)]


def _noted(sheet: Sheet) -> dict[str, Any]:
    """A body that repeats an earlier one says so instead."""
    body: dict[str, Any] = dict(sheet.body) if isinstance(sheet.body, dict) else {}
    if sheet.skipped:
        noted = {key: [Note(f"… {sheet.skipped} as in step 1"), *turns] for key, turns in body.items()}
        return {**noted, Note("…"): Note("the rest as in step 1")}
    if sheet.alike:
        noted = {key: value for key, value in body.items() if key not in sheet.alike}
        return {**noted, Note("…"): Note(f"{len(sheet.alike)} fields that are the same in every reply")}
    return body


def _beside(cycle: Cycle, step: Step, width: int) -> list[str]:
    half = (width - 3) // 2
    left, right = headings(cycle, step)
    rows = zip_longest(sheet_lines(step.client, half), sheet_lines(step.upstream, half), fillvalue="")
    ruled = [f"{left:<{half}} │ {right}", f"{'─' * half}─┼─{'─' * half}"]
    return [*ruled, *(f"{one:<{half}} │ {two}" for one, two in rows)]


def _stacked(cycle: Cycle, step: Step, width: int) -> list[str]:
    """In the order in which it happens."""
    pairs = list(zip(headings(cycle, step), (step.client, step.upstream), strict=True))
    lines: list[str] = []
    for heading, sheet in pairs if step.asks else reversed(pairs):
        lines += [f"  {heading}", *(f"    {line}" for line in sheet_lines(sheet, width - 4))]
    return lines
