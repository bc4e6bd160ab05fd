"""`dragoman translate`: a body or a stream, from a file or a pipe, into another protocol."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any, Literal

import click
from msgspec import Struct

from dragoman import Exchange, Loss, WireError, dialects, protocols
from dragoman.cli.options import collect
from dragoman.cli.output import as_document, pretty, write, write_losses
from dragoman.core.fields import describe, read_body
from dragoman.core.jsontext import decode
from dragoman.core.loss_codes import Severity
from dragoman.core.losses import Losses, Strictness
from dragoman.core.model import Wire
from dragoman.forwarding import ForwardedStream
from dragoman.pipeline import EventReader, TranslatedStream
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


class _Command(click.Command):
    """`--strict` alone refuses every loss; click would take the next word for its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--strict=cosmetic" if arg == "--strict" else arg for arg in args])


class TranslationOptions(Struct, frozen=True):
    what: What
    file: IO[bytes]
    source: str
    target: str
    dialect: str | None
    strict: Severity | None
    as_json: bool
    images: Literal["native", "summary"]
    recover: bool
    transcript: bool
    model: str | None
    stream: bool | None
    request: IO[bytes] | None
    show_path: bool

    @property
    def asks(self) -> bool:
        return self.what in ("request", "tools")

    def check(self) -> None:
        """Raises UsageError for an option that would have no effect."""
        about_request = self.what == "request" or self.request is not None
        without_effect = {
            "--request": self.request is not None and self.asks,
            "--model (without --request)": self.model is not None and not about_request,
            "--stream (without --request)": self.stream is not None and not about_request,
            "--show-path": self.show_path and self.what != "request",
            "--dialect": self.dialect is not None and self.what == "tools",
            "--transcript": self.transcript and self.what != "request",
        }
        for option in (option for option, given in without_effect.items() if given):
            raise click.UsageError(f"{option} cannot be used for {self.what}")


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
@click.option(
    "--transcript",
    is_flag=True,
    help="The request is a record: invent nothing that only a server would demand.",
)
@click.option("--model", metavar="M", help="The model of the request; for Gemini, the model in the URL.")
@click.option("--stream/--no-stream", default=None, help="Whether the request asks for a stream.")
@click.option(
    "--request",
    type=click.File("rb"),
    metavar="FILE",
    help="The client's request: restores names, ids and types in a response.",
)
@click.option("--show-path", is_flag=True, help="Print the path of the request on stderr.")
@collect(TranslationOptions)
def command(options: TranslationOptions) -> int:
    """Translate FILE (or stdin) from one protocol to another.

    A request is translated from the client's protocol to the upstream's, a response and a stream from the
    upstream's to the client's. Tools are declarations: an array of them, or a body with a tools field.

    The translation goes to stdout, losses go to stderr.
    """
    options.check()
    what, file = options.what, _read_recording(options.file, options.asks)
    client, upstream = (options.source, options.target) if options.asks else (options.target, options.source)
    exchange = Exchange(
        client,
        upstream,
        dialect=options.dialect,
        images=options.images,
        recover=options.recover,
        transcript=options.transcript,
    )
    if options.request:  # before the response; what it loses is not the response's loss
        exchange.request(options.request.read(), options.model, options.stream)
    job = BodyTranslation(options, exchange)
    return job.translate_stream(file) if what == "stream" else job.translate_body(file)


class BodyTranslation:
    def __init__(self, options: TranslationOptions, exchange: Exchange) -> None:
        self._options, self._what, self._exchange = options, options.what, exchange
        self._strict: Strictness = options.strict or False
        self._as_json = options.as_json
        self._before = set(exchange.losses)

    def translate_body(self, file: IO[bytes]) -> int:
        text = file.read()
        match self._what:
            case "request":
                body: Any = self._exchange.request(text, self._options.model, self._options.stream)
            case "response":
                body = self._exchange.response(read_body(text, self._exchange.upstream.name))
            case _:
                body = _tools(self._exchange, text)
        if self._what == "request" and body.get("model") == "":
            click.echo("dragoman: the request names no model. Pass --model.", err=True)
        losses = self._losses()
        self._write(as_document(body, losses) if self._as_json else pretty(body), losses)
        return 0

    def translate_stream(self, file: IO[bytes]) -> int:
        """Chunk by chunk, as they arrive. An upstream that fails inside its stream is exit code 1."""
        stream = self._exchange.stream()
        # Between equal protocols bytes pass unread; a reader beside them sees whether the upstream failed
        watch: EventReader | None = None
        if isinstance(stream, ForwardedStream):
            watch = EventReader(protocol(self._exchange.upstream.name), (), Losses())
        written: list[bytes] = []
        for out in _run(file, stream, watch):
            self._losses()
            written.append(out) if self._as_json else write(out)
        losses = self._losses()
        text = b"".join(written).decode("utf-8", "replace")
        self._write(as_document(text, losses) if self._as_json else b"", losses)
        failure = (watch.failure if watch else None) or stream.failure
        if failure is None:
            return 0
        why = " ".join(failure.message.split())
        click.echo(f"dragoman: the upstream failed ({failure.kind}): {why}", err=True)
        return 1

    def _losses(self) -> list[Loss]:
        """The losses of this translation; strict mode refuses them."""
        prefix = "tools" if self._what == "tools" else ""
        fresh = [loss for loss in self._exchange.losses if loss not in self._before]
        fresh = [loss for loss in fresh if loss.where.startswith(prefix)]
        if self._strict:
            losses = Losses()
            losses.extend(fresh)
            losses.refuse(self._strict)
        return fresh

    def _write(self, body: bytes, losses: list[Loss]) -> None:
        if self._options.show_path:
            click.echo(f"POST {self._exchange.path}", err=True)
        write(body)
        if not self._as_json:
            write_losses(losses)


def _read_recording(file: IO[bytes], asks: bool) -> IO[bytes]:
    """Of a recording (`dragoman inspect`), the client's request or the upstream's reply."""
    if not str(getattr(file, "name", "")).endswith(RECORDING):  # a pipe has no name
        return file
    from dragoman.recording.values import load_recording  # needs the extra `gateway`

    recording = load_recording(file.read())
    reply = recording.answered.reply if recording.answered else recording.reply
    return io.BytesIO((recording.request if asks else reply).body.data)


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
    file: IO[bytes], stream: ForwardedStream | TranslatedStream, watch: EventReader | None
) -> Iterator[bytes]:
    read = getattr(file, "read1", file.read)  # what has arrived, without waiting for more
    while chunk := read(CHUNK):
        yield stream.feed(chunk)
        if watch:
            watch.feed(chunk)
    yield stream.close()
    if watch:
        watch.close()
