"""How fast each dialect reads a reply in pieces of four characters, and whether cost is linear."""

from bench.measure import Run, best_times
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseStart
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Stop, Text, ToolCall, ToolDeclaration, ToolResult
from dragoman.dialects import dialect, names

PIECE = 4
SIZE = 250_000  # characters; the growth is measured at twice and four times as many
TOOL = ToolDeclaration(
    "write_file",
    "Writes a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "mode": {"type": "integer"},
        },
        "required": ["path", "content"],
    },
)
PROSE = "The build failed because `a < b` was read as a tag; [1] and {2} say why. "


def show_dialects() -> None:
    print(f"\nText dialects, replies in pieces of {PIECE} characters: half prose, half one call")
    print(f"{'dialect':17}{'MB/s':>8}{'time x for 2x':>15}{'for 4x':>8}")
    for name in names():
        sizes = (SIZE, 2 * SIZE, 4 * SIZE)
        times = best_times([lambda n=name, s=size: prepare(n, s) for size in sizes], 3)
        print(f"{name:17}{SIZE / times[0] / 1e6:8.2f}{times[1] / times[0]:15.2f}{times[2] / times[0]:8.2f}")


def prepare(name: str, size: int) -> Run:
    events = reply(name, size)
    stage = dialect(name).parser((TOOL,), Losses())

    def run() -> bytes:
        found = [out for event in events for out in stage.feed(event)] + list(stage.close())
        assert any(isinstance(event, PartStart) and isinstance(event.part, ToolCall) for event in found), name
        return b""

    return run


def reply(name: str, size: int) -> list[Event]:
    """Prose and a call as the dialect itself writes it into a history, cut small."""
    arguments = '{"path":"/tmp/a.py","content":"' + "x = 1\\n" * (size // 14) + '","mode":420}'
    call = ToolCall("call_1", TOOL.name, arguments)
    history = (
        Message("assistant", (call,)),
        Message("user", (ToolResult("call_1", TOOL.name, (Text("ok"),)),)),
    )
    rendered = dialect(name).render(Request("m", history, tools=(TOOL,)), Losses())
    call = "".join(part.text for part in rendered.messages[0].parts if isinstance(part, Text))
    alone = name in ("llama3-json", "pythonic")  # a call of theirs is the whole reply
    text = ("" if alone else PROSE * (size // 2 // len(PROSE)) + "\n\n") + call
    deltas: list[Event] = [PartDelta(0, text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    return [ResponseStart("r", "m"), PartStart(0, Text()), *deltas, PartEnd(0), ResponseEnd(Stop("end"))]
