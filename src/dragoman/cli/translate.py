"""`dragoman translate`: a body or a stream, from a file or a pipe, into another protocol."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal

import click

from dragoman import Exchange, Loss, WireError, dialects, protocols
from dragoman.cli.output import as_document, pretty, write, write_losses
from dragoman.core.fields import describe
from dragoman.core.jsontext import decode
from dragoman.core.loss_codes import Severity
from dragoman.core.losses import Losses, Strictness
from dragoman.core.model import Failure, Wire
from dragoman.pipeline import EventReader, ForwardedStream, TranslatedStream
from dragoman.protocols import protocol

What = Literal["request", "response", "stream", "tools"]
CHUNK = 1 << 16
RECORDING = ".exchange.json"

EXAMPLES = """\b
Examples:
  dragoman translate request --from anthropic --to gemini request.json
  dragoman translate response --from gemini --to anthropic --request request.json reply.json
  curl -sN … | dragoman translate stream --from openai-chat --to anthropic
  dragoman translate tools --from gemini --to openai-chat --json tools.json
"""


@dataclass(frozen=True)
class Translation:
    """The options of the command line."""

    what: What
    exchange: Exchange
    file: IO[bytes]
    request: IO[bytes] | None
    model: str | None
    stream: bool | None
    strict: Strictness
    as_json: bool
    show_path: bool


class _Command(click.Command):
    """`--strict` alone refuses every loss; click would take the next word for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--strict=cosmetic" if arg == "--strict" else arg for arg in args])


@click.command(
    cls=_Command, epilog=EXAMPLES, short_help="Translate a request, a response, a stream or tools."
)
@click.argument("what", type=click.Choice(["request", "response", "stream", "tools"]))
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--from", "source", type=click.Choice(protocols()), required=True, help="The protocol of FILE.")
@click.option(
    "--to", "target", type=click.Choice(protocols()), required=True, help="The protocol of the output."
)
@click.option("--dialect", type=click.Choice(dialects()), help="Tool calls are text in this dialect.")
@click.option(
    "--strict",
    type=click.Choice(["material", "minor", "cosmetic"]),
    help="Refuse, with exit code 1, if something is lost; --strict=material: if it changes what happens.",
)
@click.option("--json", "as_json", is_flag=True, help='Print {"body": …, "losses": […]} to stdout.')
@click.option(
    "--images",
    type=click.Choice(["native", "summary"]),
    default="native",
    show_default=True,
    help="Images in tool results: in the richest form of the target, or as a line of text.",
)
@click.option("--recover", is_flag=True, help="Recover tool calls that the model wrote as text.")
@click.option("--model", metavar="M", help="The model of the request; for Gemini, the model in the URL.")
@click.option("--stream/--no-stream", default=None, help="Whether the request asks for a stream.")
@click.option(
    "--request",
    type=click.File("rb"),
    metavar="FILE",
    help="The client's request: restores names, ids and types in a response.",
)
@click.option("--show-path", is_flag=True, help="Print the path of the request on stderr.")
def command(
    what: What,
    file: IO[bytes],
    source: str,
    target: str,
    dialect: str | None,
    strict: Severity | None,
    as_json: bool,
    images: Literal["native", "summary"],
    recover: bool,
    model: str | None,
    stream: bool | None,
    request: IO[bytes] | None,
    show_path: bool,
) -> int:
    """Translate FILE (or stdin) from one protocol to another.

    A request is translated from the client's protocol to the upstream's, a response and a stream from the
    upstream's to the client's. Tools are declarations: an array of them, or a body with a tools field.

    The translation goes to stdout, losses go to stderr.
    """
    asks = what in ("request", "tools")
    file = _recorded(file, asks)
    _refuse_idle(what, dialect, model, stream, request, show_path)
    client, upstream = (source, target) if asks else (target, source)
    exchange = Exchange(client, upstream, dialect=dialect, images=images, recover=recover)
    job = Translation(what, exchange, file, request, model, stream, strict or False, as_json, show_path)
    return translate_stream(job) if what == "stream" else translate_body(job)


def _recorded(file: IO[bytes], asks: bool) -> IO[bytes]:
    """Of a recording (`dragoman inspect`), the client's request or the upstream's reply."""
    if not str(getattr(file, "name", "")).endswith(RECORDING):  # a pipe has no name
        return file
    from dragoman.gateway.observability.recording import load_recording  # needs the extra `gateway`

    recording = load_recording(file.read())
    reply = recording.answered.reply if recording.answered else recording.reply
    return io.BytesIO((recording.request if asks else reply).body.data)


def _refuse_idle(
    what: What,
    dialect: str | None,
    model: str | None,
    stream: bool | None,
    request: IO[bytes] | None,
    show_path: bool,
) -> None:
    """An option that would have no effect is an error."""
    about_request = what == "request" or request is not None
    idle = {
        "--request": request is not None and what in ("request", "tools"),
        "--model (without --request)": model is not None and not about_request,
        "--stream (without --request)": stream is not None and not about_request,
        "--show-path": show_path and what != "request",
        "--dialect": dialect is not None and what == "tools",
    }
    for option in (option for option, is_idle in idle.items() if is_idle):
        raise click.UsageError(f"{option} means nothing for {what}")


def translate_body(job: Translation) -> int:
    before = _ask(job)
    match job.what:
        case "request":
            body: Any = job.exchange.request(job.file.read(), job.model, job.stream)
        case "response":
            body = job.exchange.response(job.file.read())
        case _:
            body = _tools(job.exchange, job.file.read())
    losses = _fresh(job, before)
    _say(job, pretty(body) if not job.as_json else as_document(body, losses), losses)
    return 0


def translate_stream(job: Translation) -> int:
    """Chunk by chunk, as they arrive. An upstream that fails inside its stream is exit code 1."""
    before, stream = _ask(job), job.exchange.stream()
    watch = _watch(job.exchange) if isinstance(stream, ForwardedStream) else stream
    kept: list[bytes] = []
    for out in _run(job, stream, watch):
        _fresh(job, before)
        kept.append(out) if job.as_json else write(out)
    losses = _fresh(job, before)
    _say(job, as_document(b"".join(kept).decode("utf-8", "replace"), losses) if job.as_json else b"", losses)
    return _failed(watch.failure or stream.failure)


def _ask(job: Translation) -> set[Loss]:
    """The request before the response; what it loses is not the response's loss."""
    if job.request:
        job.exchange.request(job.request.read(), job.model, job.stream)
    return set(job.exchange.losses)


def _fresh(job: Translation, before: set[Loss]) -> list[Loss]:
    """The losses of this translation; strict mode refuses them."""
    tools = job.what == "tools"
    fresh = [
        loss
        for loss in job.exchange.losses
        if loss not in before and (not tools or loss.where.startswith("tools"))
    ]
    if job.strict:
        losses = Losses()
        losses.extend(fresh)
        losses.refuse(job.strict)
    return fresh


def _say(job: Translation, body: bytes, losses: list[Loss]) -> None:
    if job.show_path:
        click.echo(f"POST {job.exchange.path}", err=True)
    write(body)
    if not job.as_json:
        write_losses(losses)


def _tools(exchange: Exchange, text: bytes) -> list[Wire]:
    """Declarations alone: an array of them, or a body that holds one."""
    client = exchange.client
    try:
        value = decode(text)
    except ValueError as error:
        raise WireError(client.name, "", str(error)) from None
    tools = value.get("tools") if isinstance(value, dict) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    if not isinstance(tools, list):
        raise WireError(client.name, "tools", f"expected an array, got {describe(tools)}")
    return exchange.request({"model": "", client.turns: [], "tools": tools}).get("tools", [])


def _run(
    job: Translation, stream: ForwardedStream | TranslatedStream, watch: EventReader | TranslatedStream
) -> Iterator[bytes]:
    for chunk in _chunks(job.file):
        yield stream.feed(chunk)
        if watch is not stream:
            watch.feed(chunk)
    yield stream.close()
    if watch is not stream:
        watch.close()


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """What has arrived, without waiting for more."""
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK):
        yield chunk


def _watch(exchange: Exchange) -> EventReader:
    """Between equal protocols bytes pass unread; a reader beside them sees whether the upstream failed."""
    return EventReader(protocol(exchange.upstream.name), (), Losses())


def _failed(failure: Failure | None) -> int:
    if failure is None:
        return 0
    click.echo(
        f"dragoman: the upstream failed ({failure.kind}): {' '.join(failure.message.split())}", err=True
    )
    return 1
