"""The two ends of the demo: an agent that really runs its tools, and a model that is a script.

Each end speaks only its own protocol: what it sends is encoded, and what it
receives is decoded, by that protocol's codec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from dragoman import ToolCall, ToolResult, build_tool_results, parse_tool_calls
from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Message,
    Reasoning,
    Request,
    Response,
    Settings,
    State,
    Stop,
    Text,
    ToolDeclaration,
    Usage,
    Wire,
)
from dragoman.core.model_profile import UNKNOWN

MODEL = "demo-model"
FILES = {
    "README.md": "# Tides\nHigh water at noon.\n",
    "src/tides.py": "print('high water at noon')\n",
    "tests/test_tides.py": "assert True\n",
}
_PATH: Wire = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (
    ToolDeclaration("list_files", "Lists a directory.", _PATH),
    ToolDeclaration("read_file", "Reads a text file.", _PATH),
)


def lay_out(root: Path) -> None:
    """The directory that the tools read."""
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class ScriptedAgent:
    """A client: it sends the question, runs the tools that the model calls, and sends back what they gave."""

    def __init__(self, codec: Codec, root: Path, stream: bool) -> None:
        self._codec, self._root = codec, root.resolve()
        self.outputs: list[str | Exception] = []
        settings = Settings(max_tokens=400, user="crew-7")
        question = Message("user", (Text("What is here? What does README.md say?"),))
        request = Request(MODEL, (question,), (Text("Be brief."),), TOOLS, settings=settings, stream=stream)
        self.wire = codec.encode_request(request, Losses())

    def continue_with(self, reply: Wire) -> None:
        """Append to the conversation the model's turn as it came, and the results of its calls."""
        calls = parse_tool_calls(reply, self._codec.name)
        self.outputs = [self.run(call) for call in calls]
        results = build_tool_results(calls, self.outputs, self._codec.name)
        turns = self._codec.turns
        self.wire = {**self.wire, turns: [*self.wire[turns], *turn_of(reply), *results]}

    def run(self, call: ToolCall) -> str | Exception:
        arguments = jsontext.decode_object(call.arguments) or {}
        path = (self._root / str(arguments.get("path"))).resolve()
        if call.name not in RUN or not path.is_relative_to(self._root):
            return ValueError(f"{call.name} {call.arguments} is not for me")
        try:
            return RUN[call.name](path)
        except OSError as error:
            return error


def turn_of(reply: Wire) -> list[Wire]:
    """The model's turn as clients keep it: the very objects that came."""
    match reply:
        case {"candidates": [{"content": turn}, *_]} | {"choices": [{"message": turn}, *_]}:
            return [turn]
        case {"output": [*items]} | {"steps": [*items]}:
            return items
        case _:
            return [{"role": "assistant", "content": reply.get("content")}]


def list_files(path: Path) -> str:
    return "\n".join(sorted(f"{item.name}/" if item.is_dir() else item.name for item in path.iterdir()))


def read_file(path: Path) -> str:
    return path.read_text()


RUN: dict[str, Callable[[Path], str]] = {"list_files": list_files, "read_file": read_file}


class ScriptedModel:
    """An upstream: calls every tool that is declared, then answers from what the results say."""

    def __init__(self, codec: Codec) -> None:
        self._limits = codec.limits(UNKNOWN)
        self._name = codec.name
        self.state = State(codec.name, "bm90IGZvciB5b3VyIGV5ZXMsIG9ubHkgZm9yIG1pbmU=")

    def reply(self, request: Request) -> Response:
        results = results_of(request)
        tools = request.tools[:1] if request.parallel is False else request.tools
        return self._answer(results) if results else self._call(tools)

    def _call(self, tools: Iterable[object]) -> Response:
        names = [tool.name for tool in tools if isinstance(tool, ToolDeclaration)]
        paths = (".", "README.md")
        calls: list[AnyPart] = [
            ToolCall(f"call_{number}", name, jsontext.dumps({"path": path}))
            for number, (name, path) in enumerate(zip(names, paths, strict=False), 1)
        ]
        return Response("resp_1", MODEL, self._signed(calls), Stop("tool_calls"), Usage(120, 40))

    def _signed(self, calls: list[AnyPart]) -> tuple[AnyPart, ...]:
        """State where this protocol has a place for it: on the first call, or on reasoning before it."""
        if self._limits.call_state:
            return (replace(calls[0], state=self.state), *calls[1:])
        if self._limits.reasoning_state:
            return (Reasoning("Both can run at once.", state=self.state), *calls)
        return tuple(calls)

    def _answer(self, results: list[ToolResult]) -> Response:
        listed, *read = (text_of(result).splitlines() for result in results[:2])
        text = f"{len(listed)} entries" + (f"; the README says {read[0][0]}." if read else ".")
        return Response("resp_2", MODEL, (Text(text),), Stop("end"), Usage(190, 30))


def results_of(request: Request) -> list[ToolResult]:
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))
