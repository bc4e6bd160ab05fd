"""The four steps of a tool call, from an agent that really runs its tools to the scripted model, and back.

What is checked at the end is what a translation is for: the agent ran the calls that the model
meant, and the model got back its results, its ids and its state.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from msgspec import Struct

from dragoman import Exchange, GrammarError, Loss, ToolCall, ToolResult, build_tool_results, parse_tool_calls
from dragoman.core import jsontext
from dragoman.core.codec import Codec, Frame
from dragoman.core.errors import WireError
from dragoman.core.events import fold
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Request, Response, Settings, Text, ToolDeclaration, Wire
from dragoman.demo.answers import answer
from dragoman.demo.faults import Memory
from dragoman.framing import sse

_CREATED = 1_700_000_000  # seconds since 1970: the same output every time
_MODEL = "demo-model"
_QUESTION = "List the files in docs/tides and read README.md"
FILES = {
    "README.md": "# Tides\nHigh water at noon.\n",
    "docs/tides/noon.md": "High water\n",
    "docs/tides/dusk.md": "Low water\n",
}
_PATH: Wire = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_TOOLS = (
    ToolDeclaration("list_files", "Lists a directory.", _PATH),
    ToolDeclaration("read_file", "Reads a text file.", _PATH),
)

Body = Wire | bytes  # a stream is bytes
PartT = TypeVar("PartT")


class Step(Struct, frozen=True):
    """`path` is where the request goes, on either side; a reply has none."""

    title: str
    client: Body
    upstream: Body
    losses: tuple[Loss, ...]
    paths: tuple[str, str] | None = None


class Cycle(Struct, frozen=True):
    client: str
    upstream: str
    steps: tuple[Step, ...]
    checks: dict[str, bool]

    @property
    def good(self) -> bool:
        return all(self.checks.values())


def walk(client: str, upstream: str, stream: bool, dialect: str | None = None) -> Cycle:
    with TemporaryDirectory() as directory:
        return _Walk(client, upstream, stream, dialect, Path(directory)).cycle()


class _Walk:
    def __init__(self, client: str, upstream: str, stream: bool, dialect: str | None, root: Path) -> None:
        self._names, self._dialect, self._stream, self._root = (client, upstream), dialect, stream, root
        self._model = Memory()
        exchange = self._exchange()
        self._client, self._upstream = exchange.client, exchange.upstream
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    def _exchange(self) -> Exchange:
        return Exchange(*self._names, dialect=self._dialect, reply_created=_CREATED)

    def cycle(self) -> Cycle:
        messages = (Message("user", (Text(_QUESTION),)),)
        settings = Settings(max_tokens=400, user="crew-7")
        system = (Text("Be brief."),)
        asked = Request(_MODEL, messages, system, _TOOLS, settings=settings, stream=self._stream)
        wire = self._client.encode_request(asked, Losses())
        question, call = self._turn(
            wire, "The agent asks and declares its tools.", "The model calls them, both at once."
        )
        reply = _whole(call.client, self._client)
        calls = parse_tool_calls(reply, self._client.name)
        outputs = [run(call, self._root) for call in calls]
        field = self._client.turns
        results = build_tool_results(calls, outputs, self._client.name)
        wire = {**wire, field: [*wire[field], *_turn_of(reply), *results]}
        result, answered = self._turn(wire, "The agent has run them and sends the results.", "It answers.")
        steps = question, call, result, answered
        return Cycle(*self._names, steps, self._checks(steps, outputs))

    def _turn(self, wire: Wire, asks: str, answers: str) -> tuple[Step, Step]:
        """One request, and the reply of the scripted model."""
        exchange = self._exchange()
        sent = exchange.request(wire, _MODEL, self._stream)
        before = tuple(exchange.losses)
        paths = self._client.http.path(_MODEL, self._stream), exchange.path
        path, _, query = exchange.path.partition("?")
        queries = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        scripted = answer("POST", path, queries, exchange.headers, jsontext.encode(sent), self._model)
        data = b"".join(scripted.pieces)
        if scripted.status != 200:
            raise WireError(self._upstream.name, "", f"the model refuses: {data.decode()}")
        if self._stream:
            stream = exchange.stream()
            out: Body = stream.feed(data) + stream.close()
        else:
            out = exchange.response(data)
        losses = tuple([loss for loss in exchange.losses if loss not in before])
        reply: Body = data if self._stream else jsontext.decode(data)
        return Step(asks, wire, sent, before, paths), Step(answers, out, reply, losses)

    def _checks(self, steps: tuple[Step, ...], outputs: list[str | Exception]) -> dict[str, bool]:
        _, call, result, answered = steps
        ran = _parts(_reply(call.client, self._client).parts, ToolCall)
        final = "".join(part.text for part in _parts(_reply(answered.client, self._client).parts, Text))
        checks = {
            # in some dialects a model may make one call at a time
            "the agent ran the calls that the model made": [each.name for each in ran]
            in ([tool.name for tool in _TOOLS], [_TOOLS[0].name] if self._dialect else []),
            "the model got what the tools gave": all(str(output) in final for output in outputs),
        }
        if not self._dialect:  # text has neither ids nor opaque state
            made = _reply(call.upstream, self._upstream).parts
            back = self._upstream.decode_request(_whole(result.upstream, self._upstream), Losses())
            returned = [part for message in back.messages for part in message.parts]
            calls, results = _parts(made, ToolCall), _parts(returned, ToolResult)
            checks |= {
                "with the arguments as the model wrote them": [each.arguments for each in ran]
                == [each.arguments for each in calls],
                "each result went back under the id of its call": len(calls) == len(results)
                and all(map(_is_result_of, results, calls)),
                "the model's opaque state came back byte for byte": _states(made) <= _states(returned),
            }
        if self._stream:
            checks["every stream keeps to its protocol's order of events"] = all(
                _keeps_grammar(body, codec)
                for step in (call, answered)
                for body, codec in ((step.client, self._client), (step.upstream, self._upstream))
            )
        return checks


def run(call: ToolCall, root: Path) -> str | Exception:
    """What a tool of the agent gives: a list of files, or the text of one."""
    arguments = jsontext.decode_object(call.arguments) or {}
    path = (root / str(arguments.get("path"))).resolve()
    if not path.is_relative_to(root.resolve()):
        return ValueError(f"{path} is outside the directory")
    try:
        return "\n".join(sorted(each.name for each in path.iterdir())) if path.is_dir() else path.read_text()
    except OSError as error:
        return error


def _turn_of(reply: Wire) -> list[Wire]:
    """The model's turn as clients keep it: the very objects that came."""
    match reply:
        case {"candidates": [{"content": turn}, *_]} | {"choices": [{"message": turn}, *_]}:
            return [turn]
        case {"output": [*items]} | {"steps": [*items]}:
            return items
        case _:
            return [{"role": "assistant", "content": reply.get("content")}]


def _whole(body: Body, codec: Codec) -> Wire:
    return codec.encode_response(_reply(body, codec), Losses()) if isinstance(body, bytes) else body


def _reply(body: Body, codec: Codec) -> Response:
    if not isinstance(body, bytes):
        return codec.decode_response(body, Losses())
    decoder = codec.stream_decoder(Losses())
    return fold([*(event for frame in _frames(body) for event in decoder.feed(frame)), *decoder.close()])


def _keeps_grammar(stream: Body, codec: Codec) -> bool:
    grammar = codec.grammar()
    try:
        for frame in _frames(stream) if isinstance(stream, bytes) else ():
            grammar.feed(frame)
        grammar.close()
    except GrammarError:
        return False
    return True


def _frames(stream: bytes) -> list[Frame]:
    framing = sse.Decoder()
    return [*framing.feed(stream), *framing.close()]


def _is_result_of(result: ToolResult, call: ToolCall) -> bool:
    """Gemini may send calls without ids: their results are found by name."""
    return result.call_id == call.id if call.id else result.name == call.name


def _parts(parts: Iterable[AnyPart], kind: type[PartT]) -> list[PartT]:
    return [part for part in parts if isinstance(part, kind)]


def _states(parts: Iterable[AnyPart]) -> set[tuple[str, str]]:
    return {(part.state.origin, part.state.data) for part in parts if part.state}
