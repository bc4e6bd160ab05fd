"""The same screen with rich: boxes, coloured JSON, coloured losses."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group
from rich.highlighter import JSONHighlighter
from rich.table import Table
from rich.text import Text

from dragoman.cli.demo.cycle import Cycle, Sheet, Step
from dragoman.cli.demo.show import headings, said_losses, sheet_lines, title, verdicts

COLOURS = {"dropped": "red", "changed": "yellow", "invented": "cyan", "nothing": "green"}


def show_rich(cycle: Cycle, width: int, beside: bool) -> None:
    console = Console(width=width, highlight=False)
    console.print(Text(title(cycle), style="bold"))
    for number, step in enumerate(cycle.steps, 1):
        console.print()
        console.print(Text(f"{number}. {step.title}", style="bold"))
        console.print(_wires(cycle, step, width, beside))
        for line in said_losses(step):
            console.print(Text(f"  {line}", style=COLOURS[line.split()[0]]))
    console.print()
    for mark, what in verdicts(cycle):
        console.print(Text(f"{mark} {what}", style="green" if mark == "✓" else "bold red"))


def _wires(cycle: Cycle, step: Step, width: int, beside: bool) -> Table | Group:
    columns = 2 if beside else 1
    room = (width - 1 - 3 * columns) // columns
    sides = list(zip(headings(cycle, step), (step.client, step.upstream), strict=True))
    if beside:
        return _box([heading for heading, _ in sides], [_coloured(sheet, room) for _, sheet in sides], room)
    order = sides if step.asks else sides[::-1]
    return Group(*(_box([heading], [_coloured(sheet, room)], room) for heading, sheet in order))


def _box(names: list[str], texts: list[Text], room: int) -> Table:
    table = Table(*names, box=box.ROUNDED, border_style="dim", header_style="cyan")
    for column in table.columns:
        column.width, column.no_wrap = room, True
    table.add_row(*texts)
    return table


def _coloured(sheet: Sheet, width: int) -> Text:
    text = Text("\n".join(sheet_lines(sheet, width)))
    JSONHighlighter().highlight(text)
    return text
