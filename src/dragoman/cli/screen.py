"""The output of `ask` and `chat`: the answer on stdout as it is streamed, calls and results on stderr.

Control characters of models and tools are escaped: an escape sequence could otherwise disguise the command
that the user is asked to confirm.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from dragoman.client import (
    HostedCallEnd,
    HostedCallStart,
    ReasoningDelta,
    RunEvent,
    TextDelta,
    ToolMessage,
    ToolRunEnd,
    ToolRunProgress,
    ToolRunStart,
    TurnEnd,
    TurnStart,
)
from dragoman.client.hosted_parts import HostedCallResult
from dragoman.client.values import call_name
from dragoman.core import jsontext

if TYPE_CHECKING:
    from rich.status import Status

    from dragoman.cli.markdown import MarkdownWriter

LINES = 12  # of a result that are shown; the model gets all of it
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Screen:
    """`markdown`: render it, where stdout is a terminal and rich is installed. `shows_text`: the answer."""

    def __init__(self, reasoning: bool = False, markdown: bool = True, shows_text: bool = True) -> None:
        self._reasoning, self._shows_text = reasoning, shows_text
        self._open = False  # the last line of the answer has no end yet
        has_rich = find_spec("rich") is not None
        self._rich = sys.stderr.isatty() and has_rich
        self._spinner: Status | None = None  # turns while the model is silent
        self._markdown: MarkdownWriter | None = None
        if markdown and has_rich and sys.stdout.isatty():
            from dragoman.cli.markdown import MarkdownWriter

            self._markdown = MarkdownWriter()

    def __call__(self, event: RunEvent) -> None:
        self.stop_waiting()
        match event:
            case TurnStart() if self._rich:
                self._spinner = _spinner()
                self._spinner.start()
            case TextDelta(text) if self._shows_text:
                self._write(text)
            case ReasoningDelta(text) if self._reasoning:
                click.secho(visible(text), dim=True, nl=False, err=True)
            case ToolRunStart(call):
                self.end_line()
                self.call(call)
            case ToolRunProgress(call, value):
                click.secho(f"  {visible(str(value))}", dim=True, err=True)
            case ToolRunEnd(call, message, seconds):
                self.result(call_name(call), message, seconds)
            case HostedCallStart(call):
                self.end_line()
                self.hosted_call(call)
            case HostedCallEnd(call):
                self.hosted_result(call)
            case TurnEnd():
                self.end_line()
            case _:
                pass

    def call(self, call: dict[str, Any]) -> None:
        click.echo(f"{click.style('→ ' + visible(call_name(call)), fg='cyan', bold=True)}", err=True)
        for line in list_arguments(call):
            click.echo(f"  {line}", err=True)

    def result(self, name: str, message: ToolMessage, seconds: float) -> None:
        title = f"{'✗' if message.failed else '✓'} {visible(name)} · {seconds:.2f} s"
        colour = "red" if message.failed else "green"
        shown = "\n".join(shorten(message))
        if self._rich:
            return _panel(title, shown, colour)
        click.secho(title, fg=colour, err=True)
        for line in shown.split("\n"):
            click.echo(f"  {line}", err=True)
        return None

    def hosted_call(self, call: HostedCallResult) -> None:
        click.echo(click.style("→ " + visible(call.name), fg="cyan", bold=True), err=True)
        for name, value in call.arguments.items():
            click.echo(f"  {visible(name)}: {_value(value)}", err=True)

    def hosted_result(self, call: HostedCallResult) -> None:
        """What it found, in a line for each source; the error of one that failed."""
        mark, colour = ("✗", "red") if call.failed else ("✓", "green")
        click.secho(f"{mark} {visible(call.name)}", fg=colour, err=True)
        lines = [f"{source['title']} {source['url']}".strip() for source in call.sources]
        for line in lines or call.content.split("\n")[:LINES]:
            click.echo(f"  {visible(line)[:300]}", err=True)

    def stop_waiting(self) -> None:
        if self._spinner:
            self._spinner.stop()
            self._spinner = None

    def end_line(self) -> None:
        self.stop_waiting()
        if self._markdown:
            self._markdown.end()
        elif self._open:
            self._write("\n")

    def _write(self, text: str) -> None:
        if self._markdown:
            self._markdown.feed(visible(text))
            return
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
        self._open = not text.endswith("\n") if text else self._open


def visible(text: str) -> str:
    """`text` with control characters and changes of writing direction spelled out."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text.replace("\r\n", "\n"))


def list_arguments(call: dict[str, Any]) -> list[str]:
    """All arguments of a call, one per line."""
    written = call["function"]["arguments"]
    try:
        arguments = jsontext.decode(written)
    except ValueError:
        return [visible(written)]
    if not jsontext.is_object(arguments):
        return [visible(written)]
    return [f"{visible(name)}: {_value(value)}" for name, value in arguments.items()]


def shorten(message: ToolMessage) -> list[str]:
    lines = visible(message.content).rstrip("\n").split("\n") if message.content else []
    shown = [line[:300] for line in lines[:LINES]]
    if len(lines) > LINES:
        shown.append(f"… {len(lines) - LINES} more lines")
    return [*shown, *(f"[{media.kind}: {media.media_type}]" for media in message.images)]


def _value(value: Any) -> str:
    text = visible(value if isinstance(value, str) else jsontext.dumps(value))
    return text.replace("\n", "\n    ")


def _spinner() -> Status:
    from rich.console import Console
    from rich.status import Status

    return Status("waiting for the model", console=Console(stderr=True))


def _panel(title: str, text: str, colour: str) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    panel = Panel(Text(text), title=Text(title, style=colour), title_align="left", border_style="dim")
    Console(stderr=True, highlight=False).print(panel)
