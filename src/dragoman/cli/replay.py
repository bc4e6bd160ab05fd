"""`dragoman replay`: a recorded request again, at another model."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

import click

from dragoman.cli.output import write
from dragoman.cli.settings import config_option, settings_of
from dragoman.core import jsontext
from dragoman.core.jsontext import is_object

if TYPE_CHECKING:
    from dragoman.recording.values import RecordedMessage

EXAMPLES = """\b
Examples:
  dragoman replay bug.exchange.json --model groq:openai/gpt-oss-120b
  dragoman replay bug.exchange.json --model anthropic:claude-sonnet-4-5 --save again.exchange.json
"""


@click.command(epilog=EXAMPLES)
@click.argument("file", type=click.File("rb"))
@click.option("--model", metavar="M", help="provider:model, or a name from the configuration.  [as recorded]")
@click.option("--save", type=click.Path(dir_okay=False, writable=True), help="Record the new exchange here.")
@config_option
def command(file: IO[bytes], model: str | None, save: str | None, config: str | None) -> int:
    """Send the request of a recording again, through a private gateway, and print the reply.

    Exit code 1: the reply is an error.
    """
    from dragoman.cli.inspect import save_file
    from dragoman.gateway.observability.access_log import AccessLog
    from dragoman.gateway.process.serve import private_gateway
    from dragoman.recording.recorder import Recorder
    from dragoman.recording.values import dump_recording, load_recording

    recording = load_recording(file.read())
    recorder = Recorder()
    with private_gateway(settings_of(config), AccessLog(lambda line: None), recorder) as gateway:
        request = _request(recording.request, gateway.url, gateway.key, model)
        try:
            with urllib.request.urlopen(request) as reply:
                status, data = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, data = error.code, error.read()
    summaries = recorder.store.summaries()
    if save and summaries and (made := recorder.store.get(summaries[-1].id)):
        save_file(save, dump_recording(made).encode())
    write(data if data.endswith(b"\n") else data + b"\n")
    if summaries:
        last = summaries[-1]
        click.echo(
            f"{last.provider}:{last.target}, status {status}, losses: {last.losses or 'none'}", err=True
        )
    return 0 if status < 400 else 1


def _request(recorded: RecordedMessage, url: str, key: str, model: str | None) -> urllib.request.Request:
    path, body = recorded.url, recorded.body.data
    value = jsontext.decode(body)
    if model and is_object(value) and "model" in value:
        body = jsontext.encode({**value, "model": model})
    elif model and "/models/" in path:
        before, _, rest = path.partition("/models/")
        path = f"{before}/models/{quote(model, safe='')}:{rest.rpartition(':')[2]}"
    headers = {
        name: value
        for name, value in recorded.headers.items()
        if name.startswith(("anthropic-", "x-goog-")) and value != "***"
    }
    return urllib.request.Request(
        url + path, body, {**headers, "content-type": "application/json", "x-api-key": key}, method="POST"
    )
