"""Events to Anthropic stream frames: parts, the announcement and the end, failures."""

from collections.abc import Iterable

import pytest

from dragoman.core.codec import Frame
from dragoman.core.events import Event, KeepAlive, ResponseEnd, ResponseFailed, ResponseStart, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Citation,
    Failure,
    Foreign,
    Media,
    Reasoning,
    Refusal,
    Response,
    State,
    Stop,
    Text,
    ToolCall,
    Usage,
    Wire,
)
from dragoman.core.seal import seal_state
from dragoman.protocols.anthropic import CODEC
from dragoman.transforms.sequence import Sequencer
from protocols.anthropic.streams import STOP, call, closed, delta, events_of, opened, start, text

# Writing


def frames_of(events: Iterable[Event], losses: Losses | None = None) -> list[Wire]:
    encoder, grammar = CODEC.stream_encoder(Losses() if losses is None else losses), CODEC.grammar()
    frames = [frame for event in events for frame in encoder.feed(event)]
    frames += encoder.close()
    for frame in frames:
        grammar.feed(frame)
    grammar.close()
    assert all(frame.event == frame.data["type"] for frame in frames)
    return [frame.data for frame in frames]


def written(*parts: AnyPart, stop: Stop = Stop("end")) -> list[Wire]:  # noqa: B008 - frozen
    """The frames between the announcement and the end."""
    frames = frames_of(unfold(Response("r", "m", parts, stop)))
    assert [frame["type"] for frame in (frames[0], *frames[-2:])] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    return [short_block(frame) for frame in frames[1:-2]]


def short_block(frame: Wire) -> Wire:
    """`frame` without the fields that only fill the shape of its block."""
    if "content_block" not in frame:
        return frame
    filling = (("citations", None), ("caller", {"type": "direct"}))
    block = {key: value for key, value in frame["content_block"].items() if (key, value) not in filling}
    return {**frame, "content_block": block}


GEMINI = State("gemini", "c2ln")
SEALED = seal_state(GEMINI, "anthropic")
# name: (parts, frames)
WRITTEN: dict[str, tuple[list[AnyPart], list[Wire]]] = {
    "text": ([Text("hi")], text(0, "hi")),
    "G03 empty parts take no index": ([Text(""), Reasoning(""), Text("hi"), Refusal("")], text(0, "hi")),
    "a call": ([ToolCall("t", "f", '{"a": 1}')], call(0, '{"a": 1}')),
    "G64 a call without arguments": ([ToolCall("t", "f", "")], call(0)),
    "text and calls": (
        [Text("hi"), ToolCall("t", "f", "{}"), ToolCall("t", "f", '{"b": 2}')],
        [*text(0, "hi"), *call(1, "{}"), *call(2, '{"b": 2}')],
    ),
    "G25 the signature is the last delta of its block": (
        [Reasoning("hm", state=GEMINI), Text("hi")],
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "signature_delta", signature=SEALED),
            closed(0),
            *text(1, "hi"),
        ],
    ),
    "reasoning without a signature": (
        [Reasoning("hm")],
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="hm"),
            closed(0),
        ],
    ),
    "a signature without text": (
        [Reasoning("", state=State("anthropic", "S"))],
        [
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "signature_delta", signature="S"),
            closed(0),
        ],
    ),
    "hidden reasoning": (
        [Reasoning(hidden=True, state=GEMINI)],
        [opened(0, type="redacted_thinking", data=SEALED), closed(0)],
    ),
    "hidden reasoning without state": ([Reasoning(hidden=True), Text("hi")], text(0, "hi")),
    "own extras are announced": (
        [ToolCall("t", "f", "{}", extras={"anthropic": {"caller": {"type": "code", "tool_id": "s"}}})],
        call(0, "{}", caller={"type": "code", "tool_id": "s"}),
    ),
    "a call of a hosted tool, in deltas": (
        [
            Foreign(
                "anthropic",
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            )
        ],
        [
            opened(0, type="server_tool_use", id="s", name="web_search", input={}),
            delta(0, "input_json_delta", partial_json='{"query":"q"}'),
            closed(0),
        ],
    ),
    "other own blocks, whole": (
        [Foreign("anthropic", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})],
        [opened(0, type="web_search_tool_result", tool_use_id="s", content=[]), closed(0)],
    ),
    "what others made": (
        [Foreign("gemini", {}), Media("image", "image/png", Base64("x")), Text("hi")],
        text(0, "hi"),
    ),
}


@pytest.mark.parametrize(("parts", "frames"), WRITTEN.values(), ids=WRITTEN)
def test_parts_become_blocks(parts: list[AnyPart], frames: list[Wire]) -> None:
    assert written(*parts) == frames


def test_what_cannot_be_written_is_reported() -> None:
    losses = Losses()
    frames_of(
        unfold(Response("r", "m", (Media("image", "image/png", Base64("x"), where="M"),), Stop("end"))),
        losses,
    )
    assert [str(loss) for loss in losses] == ["dropped M: An Anthropic client expects no image in a reply."]


def test_citations_are_deltas() -> None:
    frames = written(Text("hi", (Citation("https://a", "A"),)))
    assert [frame["delta"]["type"] for frame in frames if "delta" in frame] == [
        "citations_delta",
        "text_delta",
    ]
    assert frames[1]["delta"]["citation"]["url"] == "https://a"


def test_the_announcement_and_the_end() -> None:
    events = [
        ResponseStart("r", "m", Usage(40, cached=30)),
        ResponseEnd(Stop("length", "x"), Usage(41, 9, 30, reasoning=3)),
    ]
    first, last, _ = frames_of(events)
    counts = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 30}
    assert first["message"] == {
        "id": "msg_r",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            **counts,
            "output_tokens": 1,  # G33
            "output_tokens_details": {"thinking_tokens": 0},
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": None,
            "service_tier": "standard",
            "inference_geo": None,
            "speed": None,
        },
    }
    details = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}}
    assert last["delta"] == {
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    assert last["usage"] == {**counts, "input_tokens": 11, **details, "server_tool_use": None}


def test_the_end_repeats_the_usage_of_the_start_where_it_says_none() -> None:
    _, last, _ = frames_of([ResponseStart("r", "m", Usage(4)), ResponseEnd(Stop("end"))])
    assert last["usage"]["input_tokens"] == 4


def test_g29_a_refusal() -> None:
    events = unfold(Response("r", "m", (Refusal("I "), Refusal("won't.")), Stop("end")))
    *_, last, _ = frames_of(events)
    assert last["delta"]["stop_reason"] == "refusal"
    assert last["delta"]["stop_details"] == {"type": "refusal", "category": None, "explanation": "I won't."}


def test_g28_a_cut_call_is_closed_and_the_stop_reason_says_so() -> None:
    losses = Losses()
    cut = ToolCall("t", "f", '{"a": "x', complete=False)
    *blocks, last, _ = frames_of(unfold(Response("r", "m", (cut,), Stop("length"))), losses)[1:]
    assert [short_block(block) for block in blocks] == call(0, '{"a": "x')
    assert last["delta"]["stop_reason"] == "max_tokens"
    assert not list(losses)


def test_a_failure_is_the_last_frame() -> None:
    events = [ResponseStart("r", "m"), ResponseFailed(Failure("overloaded", "later", 503))]
    assert frames_of(events)[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "later"},
    }


def test_g24_a_sign_of_life_is_a_ping() -> None:
    assert list(CODEC.stream_encoder(Losses()).feed(KeepAlive())) == [Frame("ping", {"type": "ping"})]


def test_a_stream_goes_back_as_it_came() -> None:
    """Bookkeeping included; only empty text blocks are left out."""
    source = [
        start(
            usage={"input_tokens": 5, "output_tokens": 1, "service_tier": "standard"},
            container=None,
            id="chat-1",
        ),
        *call(0, '{"a": 1}', caller={"type": "direct"}),
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "bored",
                "stop_sequence": None,
                "container": {"id": "c"},
                "stop_details": None,
            },
            "usage": {"input_tokens": 5, "output_tokens": 7, "service_tier": "standard"},
            "context_management": {"applied_edits": []},
        },
        STOP,
    ]
    first, *rest = frames_of(out for event in events_of(source) for out in _sequenced(event))
    assert first["message"] == source[0]["message"] | {"stop_sequence": None}
    assert rest == source[1:]


def _sequenced(event: Event, sequencer: Sequencer = Sequencer()) -> Iterable[Event]:  # noqa: B008 - one stream only
    return sequencer.feed(event)


@pytest.mark.parametrize(
    "first, last, counts",
    [
        (Usage(120), Usage(100, 5, cached=100), (1, 99)),
        (Usage(120), Usage(100, 5, cached=90), (10, 90)),
        (None, Usage(100, 5, cached=100), (0, 100)),
    ],
)
def test_a_prompt_from_the_cache_counts_once(
    first: Usage | None, last: Usage, counts: tuple[int, int]
) -> None:
    """Claude Code keeps the estimate of message_start where the last count is 0."""
    events = [ResponseStart("r", "m", usage=first), ResponseEnd(Stop("end"), last)]
    (usage,) = [frame["usage"] for frame in frames_of(events) if frame["type"] == "message_delta"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == counts
