"""The grammar checker of Responses streams: what it lets pass, and what it refuses."""

from typing import Any

import pytest

from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import GrammarError
from dragoman.core.model import Wire
from dragoman.protocols.openai_responses import CODEC

MESSAGE: Wire = {"id": "msg_1", "type": "message", "content": []}
CALL: Wire = {"id": "fc_1", "type": "function_call"}


def response(**more: Any) -> Wire:
    return {"id": "resp_1", "status": "completed", "output": [], "usage": {}, **more}


def step(kind: str, **body: Any) -> Wire:
    return {"type": f"response.{kind}", **body}


CREATED = step("created", response=response(status="in_progress"))
ADDED = step("output_item.added", output_index=0, item=MESSAGE)
DONE = step("output_item.done", output_index=0, item=MESSAGE)
PART = step("content_part.added", output_index=0, item_id="msg_1", content_index=0)
PART_DONE = step("content_part.done", output_index=0, item_id="msg_1", content_index=0)
DELTA = step("output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta="x")
COMPLETED = step("completed", response=response(output=[MESSAGE]))
EMPTY = step("completed", response=response())
INCOMPLETE = step("incomplete", response=response(status="incomplete", output=[CALL]))
FAILED = step("failed", response=response(status="failed", error={"code": "x"}))


def check(*steps: Wire, named: bool = True) -> None:
    grammar = CODEC.grammar()
    for number, body in enumerate(steps):
        frame = Frame(body["type"] if named else "", jsontext.encode({"sequence_number": number, **body}))
        assert list(grammar.feed(frame)) == [frame]
    list(grammar.close())


GOOD: dict[str, list[Wire]] = {
    "nothing given": [CREATED, EMPTY],
    "a message": [
        CREATED,
        step("in_progress", response=response()),
        ADDED,
        PART,
        DELTA,
        PART_DONE,
        DONE,
        COMPLETED,
    ],
    "a call that was cut": [CREATED, step("output_item.added", output_index=0, item=CALL), INCOMPLETE],
    "interleaved items": [
        CREATED,
        ADDED,
        step("output_item.added", output_index=1, item=CALL),
        step("function_call_arguments.delta", output_index=1, item_id="fc_1", delta=""),
        PART,
        PART_DONE,
        step("output_item.done", output_index=1, item=CALL),
        DONE,
        step("completed", response=response(output=[MESSAGE, CALL])),
    ],
    "progress of hosted calls": [
        CREATED,
        step("output_item.added", output_index=0, item={"id": "ws_1", "type": "web_search_call"}),
        step("web_search_call.searching", output_index=0, item_id="ws_1"),
        step("output_item.done", output_index=0, item={"id": "ws_1", "type": "web_search_call"}),
        step("completed", response=response(output=[{"id": "ws_1", "type": "web_search_call"}])),
    ],
    "failed": [CREATED, ADDED, FAILED],
    "an error": [CREATED, {"type": "error", "message": "x"}],
}


@pytest.mark.parametrize("steps", GOOD.values(), ids=GOOD)
def test_good_streams_pass(steps: list[Wire]):
    check(*steps)


def test_done_is_tolerated_at_the_end():
    grammar = CODEC.grammar()
    assert list(grammar.feed(Frame("", b"[DONE]")))


BAD: dict[str, tuple[list[Wire], str]] = {
    "G18 no created": ([ADDED], "response.output_item.added before response.created"),
    "G14 no end": ([CREATED], "the stream ends without completed, incomplete, failed or error"),
    "something after the end": ([CREATED, EMPTY, CREATED], "response.created after the end of the stream"),
    "G18 numbers with gaps": (
        [CREATED, {**EMPTY, "sequence_number": 5}],
        "response.completed has sequence_number 5, expected 1",
    ),
    "G18 no numbers": (
        [{**CREATED, "sequence_number": None}],
        "response.created has sequence_number None, expected 0",
    ),
    "G21 another id": (
        [CREATED, step("completed", response=response(id="resp_2"))],
        "response.completed has id 'resp_2', expected 'resp_1'",
    ),
    "G18 an index used twice": ([CREATED, ADDED, DONE, ADDED], "item 0 is announced twice"),
    "a delta for nothing": ([CREATED, DELTA], "response.output_text.delta for item 0, which is not open"),
    "a delta after the item": (
        [CREATED, ADDED, DONE, DELTA],
        "response.output_text.delta for item 0, which is not open",
    ),
    "G18 no content part": (
        [CREATED, ADDED, DELTA],
        "response.output_text.delta for part 0 of item 0, which is not open",
    ),
    "a part announced twice": ([CREATED, ADDED, PART, PART], "part 0 of item 0 is announced twice"),
    "a part that is done twice": (
        [CREATED, ADDED, PART, PART_DONE, PART_DONE],
        "response.content_part.done for part 0 of item 0, which is not open",
    ),
    "an item done before its part": (
        [CREATED, ADDED, PART, DONE],
        "item 0 is done while a part of it is open",
    ),
    "another item id": (
        [CREATED, ADDED, {**PART, "item_id": "msg_2"}],
        "response.content_part.added names item msg_2, expected msg_1",
    ),
    "an item that changes its id": (
        [CREATED, ADDED, step("output_item.done", output_index=0, item={**MESSAGE, "id": "msg_2"})],
        "item 0 changes its id from msg_1 to msg_2",
    ),
    "an item left open": ([CREATED, ADDED, COMPLETED], "response.completed while item 0 is open"),
    "G19 an item missing at the end": (
        [CREATED, ADDED, DONE, EMPTY],
        "the output of response.completed lacks message msg_1",
    ),
    "no usage": (
        [CREATED, step("completed", response=response(usage=None))],
        "response.completed without usage",
    ),
    "another status": (
        [CREATED, step("completed", response=response(status="incomplete"))],
        "response.completed has status incomplete",
    ),
    "a failure without words": (
        [CREATED, step("failed", response=response(status="failed"))],
        "response.failed without an error",
    ),
}


@pytest.mark.parametrize("steps, problem", BAD.values(), ids=BAD)
def test_bad_streams_are_refused(steps: list[Wire], problem: str):
    with pytest.raises(GrammarError) as raised:
        check(*steps)
    assert str(raised.value) == problem


def test_frames_need_their_names():
    with pytest.raises(GrammarError, match=r"event is named '' but its data says 'response\.created'"):
        check(CREATED, named=False)
