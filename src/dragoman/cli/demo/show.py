"""A cycle on the screen: both wires side by side where there is room, else one below the other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, cast

import click

from dragoman.cli.demo.cycle import Body, Cycle, Step
from dragoman.core import jsontext
from dragoman.core.jsontext import is_array
from dragoman.core.model import Wire

_PIPED = 100  # columns where nobody's terminal says otherwise
_SIDE_BY_SIDE = 120  # columns from which two wires fit
_LONGEST = 2  # rows that a text or a frame of a stream may take
_AS_BEFORE = "as before"
_COLOURS = {"dropped": "red", "changed": "yellow", "invented": "cyan", "nothing": "green"}


def show(cycle: Cycle) -> None:
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _PIPED
    for line in lines_of(cycle, width, is_terminal and width >= _SIDE_BY_SIDE):
        click.echo(line.rstrip())


def lines_of(cycle: Cycle, width: int, beside: bool) -> Iterator[str]:
    title = f"An agent that speaks {cycle.client}, a model that speaks {cycle.upstream}."
    yield click.style(title, bold=True)
    for number, step in enumerate(map(_shorten, cycle.steps, (None, None, *cycle.steps)), 1):
        yield from ("", click.style(f"{number}. {step.title}", bold=True))
        yield from _beside(cycle, step, width) if beside else _stack(cycle, step, width)
        for loss in [f"{loss.kind} {loss.where}: {loss.why}" for loss in step.losses] or ["nothing lost"]:
            yield click.style(f"  {loss}", fg=_COLOURS.get(loss.split()[0]))
    yield ""
    for what, good in cycle.checks.items():
        yield click.style(f"✓ {what}", fg="green") if good else click.style(f"✗ {what}", fg="red", bold=True)


def _shorten(step: Step, earlier: Step | None) -> Step:
    """Without what an earlier request, or reply, said already."""
    if earlier is None:
        return step
    client, upstream = _new(step.client, earlier.client), _new(step.upstream, earlier.upstream)
    return Step(step.title, client, upstream, step.losses, step.paths)


def _new(body: Body, earlier: Body) -> Body:
    if isinstance(body, bytes) or isinstance(earlier, bytes):
        return body
    shown: dict[str, Any] = {}
    for key, value in body.items():
        before = earlier.get(key)
        if is_array(value) and is_array(before) and value[: len(before)] == before:
            value = value[len(before) :] and [_AS_BEFORE, *value[len(before) :]]
        if value and value != before:
            shown[key] = value
    return shown if len(shown) == len(body) else {**shown, "…": _AS_BEFORE}


def _sides(cycle: Cycle, step: Step, width: int) -> tuple[list[str], list[str]]:
    verbs = ("sends →", "gets") if step.paths else ("gets ←", "sends")
    client, upstream = step.paths or ("", "")
    return (
        [f"agent · {cycle.client} {verbs[0]}", *_lines(step.client, client, width)],
        [f"model · {cycle.upstream} {verbs[1]}", *_lines(step.upstream, upstream, width)],
    )


def _beside(cycle: Cycle, step: Step, width: int) -> list[str]:
    half = (width - 3) // 2
    left, right = _sides(cycle, step, half)
    return [f"{one:<{half}} │ {two}" for one, two in zip_longest(left, right, fillvalue="")]


def _stack(cycle: Cycle, step: Step, width: int) -> Iterator[str]:
    """In the order in which it happens."""
    client, upstream = _sides(cycle, step, width - 4)
    for heading, *rows in (client, upstream) if step.paths else (upstream, client):
        yield from (f"  {heading}", *(f"    {row}" for row in rows))


def _lines(body: Body, path: str, width: int) -> list[str]:
    first = _cut(f"POST {path}", width) if path else []
    if not isinstance(body, bytes):
        return [*first, *lay_out(body, width)]
    lines = body.decode("utf-8", "replace").splitlines()
    frames = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    first = jsontext.decode_object(frames[0]) or {}
    fresh = [frames[0], *[_without(frame, first) for frame in frames[1:]]]
    return [row for frame in fresh for row in _cut(f"data: {frame}", width)]


def _without(frame: str, first: Wire) -> str:
    """A frame, without the fields that are those of the first one."""
    fields = jsontext.decode_object(frame)
    return frame if fields is None else jsontext.dumps(_new(fields, first))


def lay_out(value: Any, width: int, lead: str = "", tail: str = "") -> list[str]:
    """`value` as JSON between `lead` and `tail`, broken only where it does not fit. `…` ends what was cut."""
    flat = f"{lead}{jsontext.dumps(value)}{tail}"
    if len(flat) <= width or not value or not isinstance(value, dict | list):
        return _cut(flat, width)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        items, ends = [(f"{jsontext.dumps(key)}: ", item) for key, item in fields.items()], "{}"
    else:
        items, ends = [("", item) for item in cast("list[Any]", value)], "[]"
    rows = [f"{lead}{ends[0]}"]
    for position, (label, item) in enumerate(items, 1):
        rows += [f"  {row}" for row in lay_out(item, width - 2, label, "," if position < len(items) else "")]
    return [*rows, f"{ends[1]}{tail}"]


def _cut(line: str, width: int) -> list[str]:
    rows = [line[start : start + width] for start in range(0, len(line), width)]
    if len(rows) <= _LONGEST:
        return rows
    return [*rows[: _LONGEST - 1], f"{rows[_LONGEST - 1][: width - 1]}…"]
