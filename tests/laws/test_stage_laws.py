"""A whole reply comes out of a stage as its events do."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.codec import ProtocolLimits
from dragoman.core.errors import UpstreamError
from dragoman.core.events import EventStage
from dragoman.core.losses import Losses
from dragoman.core.model import (
    CallKind,
    Foreign,
    HostedTool,
    Message,
    Reasoning,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolDeclaration,
    Usage,
)
from dragoman.protocols import codec, names
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.restorer import Restorer
from dragoman.transforms.sequence import Sequencer
from laws.strategies import images, states
from transforms.prepared import prepare

NUMBERS: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
STRINGS: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = (
    ToolDeclaration("count", parameters=NUMBERS),
    ToolDeclaration("say", parameters=STRINGS),
    ToolDeclaration("fill", parameters=STRINGS, strict=True),
    ToolDeclaration("read file", parameters=STRINGS),
    ToolDeclaration("search", parameters=STRINGS, namespace="docs"),
    ToolDeclaration("patch", kind="custom"),
    HostedTool("local_shell"),
)
CALLED = [
    "count",
    "say",
    "fill",
    "read_file",
    "docs__search",
    "patch",
    "local_shell",
    "default_api:Say",
    "no",
]
ARGUMENTS = ['{"a":1}', '{"a":"1"}', '{"a":null}', '"{\\"a\\":\\"x\\"}"', '{"a', "", "[]", '{"input":"x"}']

state = st.none() | states("them") | states("another")
pieces = st.sampled_from(["", "a", "some words"])
parts = st.one_of(
    st.builds(Text, pieces, state=state),
    st.builds(Reasoning, pieces, st.booleans(), state=state),
    st.builds(Refusal, pieces),
    images,
    st.just(Foreign("them", {"type": "odd"})),
    st.builds(
        ToolCall,
        st.sampled_from(["", "1", "call_2", "not legal!", "x" * 100]),
        st.sampled_from([*CALLED, ""]),
        st.sampled_from(ARGUMENTS),
        st.sampled_from(["function", "function", *get_args(CallKind)]),
        st.sampled_from(["", "", "docs"]),
        st.booleans(),
        state=state,
        where=st.sampled_from(["", "content[3]"]),
    ),
)
replies = st.builds(
    Response,
    st.sampled_from(["", "id-1"]),
    st.just("m"),
    st.lists(parts, max_size=5).map(tuple),
    st.builds(Stop, st.sampled_from(get_args(StopReason))),
    st.none() | st.just(Usage(7, 3)),
)
limits = st.sampled_from([codec(name).client_limits for name in names()]) | st.builds(
    ProtocolLimits,
    custom_tools=st.booleans(),
    namespaces=st.booleans(),
    call_state=st.booleans(),
    text_state=st.booleans(),
    reasoning_state=st.booleans(),
)


def restored(
    reply: Response, client: ProtocolLimits, upstream: ProtocolLimits, prepared: bool, whole: bool
) -> tuple[Response | str, set[str], Usage | None, int]:
    losses = Losses()
    ledger = Ledger(client, upstream, "them@home", "them", losses)
    if prepared:
        prepare(ledger, Request("m", (Message("user", (Text("go"),)),), tools=TOOLS))
    stage = Restorer(ledger, "of-its-own")
    try:
        out = stage.whole(reply) if whole else EventStage.whole(stage, reply)
    except UpstreamError as error:
        out = str(error)
    return out, {str(loss) for loss in losses}, ledger.usage, ledger.called


@given(reply=replies, client=limits, upstream=limits, prepared=st.booleans())
def test_a_whole_reply_is_restored_as_its_events_are(
    reply: Response, client: ProtocolLimits, upstream: ProtocolLimits, prepared: bool
) -> None:
    reply = _possible(reply, upstream)
    whole = restored(reply, client, upstream, prepared, whole=True)
    assert whole == restored(reply, client, upstream, prepared, whole=False)


def _possible(reply: Response, upstream: ProtocolLimits) -> Response:
    """Without calls that carry state although this upstream has no slot for it."""
    kept = [
        part for part in reply.parts if upstream.call_state or type(part) is not ToolCall or not part.state
    ]
    return Response(reply.id, reply.model, tuple(kept), reply.stop, reply.usage)


@given(reply=replies)
def test_a_whole_reply_is_in_a_row(reply: Response) -> None:
    assert Sequencer().whole(reply) == EventStage.whole(Sequencer(), reply)
