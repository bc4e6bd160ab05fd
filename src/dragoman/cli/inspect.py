"""`dragoman inspect`: recorded exchanges in the terminal, from a file or from a running gateway."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins

from dragoman import DragomanError
from dragoman.cli.options import collect
from dragoman.cli.output import COLOURS, SEVERITY_COLOURS, pretty, write
from dragoman.core import jsontext
from dragoman.core.model import Wire
from dragoman.recording.values import FILE_SUFFIX, load_recording

EXAMPLES = """\b
Examples:
  dragoman serve --inspect                # the page is at http://127.0.0.1:8787/inspect
  dragoman inspect                        # the last exchanges of that gateway
  dragoman inspect req_0123abcd           # one of them; --save keeps it as a file
  dragoman inspect bug.exchange.json
"""


class GatewayApi(Struct, frozen=True):
    url: str
    key: str | None

    def fetch(self, path: str) -> Any:
        return jsontext.decode(self.get(path))

    def get(self, path: str) -> bytes:
        url, headers = self.url, {"x-api-key": self.key} if self.key else {}
        request = urllib.request.Request(url.rstrip("/") + "/inspect/api" + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            body = jsontext.decode_object(error.read().decode("utf-8", "replace")) or {}
            problem = body.get("error")
            text = problem if isinstance(problem, str) else f"{url} answers {error.code}"
            if error.code == 401:
                text += " to the key" if self.key else ". It wants one of its inspector.admin_keys: --key"
            raise DragomanError(text) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise DragomanError(
                f"No gateway with --inspect answers at {url} ({reason}). Start one: "
                "dragoman serve --inspect. Or name the address of one that runs: --url"
            ) from None


class InspectOutput(Struct, frozen=True):
    save: str | None
    html: str | None
    as_json: bool


@click.command(epilog=EXAMPLES)
@click.argument("what", metavar="[FILE|ID]", required=False)
@click.option("--url", default="http://127.0.0.1:8787", show_default=True, help="The gateway.")
@click.option("--key", envvar="DRAGOMAN_KEY", help="Its admin key, where it has keys.  [$DRAGOMAN_KEY]")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="How many to list.")
@click.option("--save", type=click.Path(dir_okay=False, writable=True), help="Write the recording to a file.")
@click.option("--html", type=click.Path(dir_okay=False, writable=True), help="Write it as one HTML file.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@collect(GatewayApi)
@collect(InspectOutput)
def command(gateway: GatewayApi, output: InspectOutput, what: str | None, last: int) -> None:
    """Show recorded exchanges: a list, or one of them with its route and its losses."""
    if what is None:
        rows = _newest(gateway, last)[::-1]
        write(pretty(rows)) if output.as_json else _list(rows)
        return
    if what.endswith(FILE_SUFFIX) or Path(what).is_file():
        text = Path(what).read_bytes()
        view = _view_of(text)
    else:
        view = gateway.fetch(f"/exchanges/{what}/all")
        text = gateway.get(f"/exchanges/{what}/exchange.json") if output.save else b""
    if output.save:
        save_file(output.save, text)
    if output.html:
        from dragoman.inspector.export import export

        save_file(output.html, export(view))
    if output.as_json:
        write(pretty(view))
    elif not (output.save or output.html):
        _show(view)


def _view_of(text: bytes) -> Wire:
    from dragoman.inspector.views import Context, whole_view

    recording = load_recording(text)
    return to_builtins(whole_view(recording, Context([recording.summary])))


def _newest(gateway: GatewayApi, count: int) -> list[Wire]:
    found: list[Wire] = []
    more: str | None = ""
    while more is not None and len(found) < count:
        page = gateway.fetch(f"/exchanges?before={more}")
        found, more = found + page["rows"], page["more"]
    return found[:count]


def _list(rows: list[Wire]) -> None:
    if not rows:
        click.echo("nothing recorded yet")
    for row in rows:
        at = time.strftime("%H:%M:%S", time.localtime(row["time"]))
        target = f" → {row['provider']}:{row['target']}" if row["provider"] else ""
        status = "in flight" if row["state"] == "active" else str(row["status"] or "client gone")
        status = click.style(status, fg="red" if row["state"] == "failed" else "green")
        losses = " ".join(
            click.style(f"{count} {name}", fg=SEVERITY_COLOURS[name]) for name, count in row["losses"].items()
        )
        took = f"{row['ms']:.0f} ms" if row["ms"] is not None else "…"
        click.echo(f"{at}  {row['id']}  {status}  {row['model']}{target}  {_calls(row)}  {took}  {losses}")
        if row["error"]:
            click.echo(f"          {row['error']}")


def _calls(summary: Wire) -> str:
    return "1 call" if summary["calls"] == 1 else f"{summary['calls']} calls"


def _show(view: Wire) -> None:
    summary = view["summary"]
    wires = f"{summary['client']} → {summary['upstream'] or '?'}"
    click.echo(f"{summary['id']}  {summary['agent'] or 'unknown agent'}  {wires}")
    click.echo(f"asked     {summary['model']}")
    click.echo(f"rule      {view['rule'] or 'provider:model, or the only provider'}")
    for number, attempt in enumerate(view["attempts"], 1):
        outcome = attempt["error"] or f"status {attempt['status']}"
        click.echo(
            f"attempt {number} {attempt['provider']}:{attempt['model']} ({attempt['protocol']}): {outcome}"
        )
        if attempt["problem"]:
            click.echo(f"          {attempt['problem'][:300]}")
    tokens = f"{summary['input']} in ({summary['cached']} cached), {summary['output']} out"
    click.echo(f"reply     status {summary['status']}, {_calls(summary)}, {tokens}")
    if not view["losses"]:
        click.echo("losses    none")
    for loss in view["losses"]:
        kind = click.style(loss["kind"], fg=COLOURS.get(loss["kind"], "cyan"))
        value = f" = {loss['value']}" if loss["value"] else ""
        click.echo(f"{loss['severity']:9} {kind} {loss['where']}{value}: {loss['why']}  [{loss['code']}]")
    prefix = view["tabs"]["window"]["prefix"]
    if prefix and prefix["path"]:
        still = f"about {prefix['same']} of {prefix['total']} tokens still match"
        click.echo(f"prefix    broke at {prefix['path']}: {still}")


def save_file(path: str, data: bytes) -> None:
    """A new file is its owner's alone: it holds what people wrote."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(data)
    click.echo(f"wrote {path}", err=True)
