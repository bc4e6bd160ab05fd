"""Laws that every codec in the registry obeys."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import Codec, Frame
from dragoman.core.errors import UpstreamError, WireError
from dragoman.core.events import Event, PartEnd, ResponseEnd, ResponseFailed, ResponseStart, fold, unfold
from dragoman.core.losses import Losses
from dragoman.core.model import Citation, Failure, Request, Response, Stop, Text, Usage, Wire
from dragoman.protocols import names, upstream, upstream_names
from laws import meaning
from laws.strategies import requests, responses, values

# those of clients, and upstreams with a wire of their own
NAMES = [
    name
    for name in upstream_names()
    if name in names() or (upstream(name).name == name and not upstream(name).session)
]
every_codec = pytest.mark.parametrize("codec", [upstream(name) for name in NAMES], ids=NAMES)


def plain(value: Any) -> Any:
    """As a peer would parse it."""
    return jsontext.decode(jsontext.encode(value))


def frames_of(codec: Codec, response: Response) -> list[Frame]:
    encoder = codec.stream_encoder(Losses())
    frames = [frame for event in unfold(response) for frame in encoder.feed(event)]
    return [*frames, *encoder.close()]


def printed(frame: Frame) -> Frame:
    return Frame(frame.event, frame.data if isinstance(frame.data, bytes) else jsontext.encode(frame.data))


def events_of(codec: Codec, frames: list[Frame], losses: Losses | None = None) -> list[Event]:
    decoder = codec.stream_decoder(Losses() if losses is None else losses)
    events = [event for frame in frames for event in decoder.feed(printed(frame))]
    return [*events, *decoder.close()]


@given(response=responses())
def test_fold_after_unfold_is_identity(response: Response) -> None:
    assert fold(unfold(response)) == response


@every_codec
@given(request=requests())
def test_a_request_survives_its_wire(codec: Codec, request: Request) -> None:
    losses = Losses()
    back = codec.decode_request(plain(codec.encode_request(request, losses)), Losses())
    if any("The tools were left out" in loss.why for loss in losses):  # where there is no word for none
        request = replace(request, tools=())
    got, expected = meaning.of_request(back), meaning.of_request(request)
    if any(loss.code == "media.image.dropped" for loss in losses):
        expected["media"] = [source for source in expected["media"] if source in got["media"]]
    assert got == expected
    if not list(losses):
        for name in ("max_tokens", "temperature", "top_p", "top_k", "stop"):
            assert getattr(back.settings, name) == getattr(request.settings, name)


@every_codec
@given(response=responses())
def test_a_response_survives_its_wire(codec: Codec, response: Response) -> None:
    losses = Losses()
    back = codec.decode_response(plain(codec.encode_response(response, losses)), Losses())
    if response.usage and "usage.reasoning" in [loss.where for loss in losses]:
        response = replace(response, usage=replace(response.usage, reasoning=0))
    assert meaning.of_response(back) == meaning.of_response(response)


@every_codec
@given(response=responses())
def test_streamed_equals_whole(codec: Codec, response: Response) -> None:
    whole = codec.decode_response(plain(codec.encode_response(response, Losses())), Losses())
    losses = Losses()
    streamed = meaning.of_response(fold(events_of(codec, frames_of(codec, response), losses)))
    expected = meaning.of_response(whole)
    if any(
        loss.code == "citation.dropped" for loss in losses
    ):  # a source that comes after its text is reported
        del streamed["citations"], expected["citations"]
    assert streamed == expected


@every_codec
def test_sources_of_an_empty_text_survive(codec: Codec) -> None:
    """A server may send sources with a text of which it writes nothing."""
    cited = Text("", (Citation("https://a.test", "A", start=0, end=0),))
    response = Response("r", "m", (cited, Text("Rain")), Stop("end"), Usage(1, 1), 1)
    whole = codec.decode_response(plain(codec.encode_response(response, Losses())), Losses())
    streamed = fold(events_of(codec, frames_of(codec, response)))
    for back in (whole, streamed):
        assert meaning.of_response(back)["citations"] == ["https://a.test"]


@every_codec
@given(response=responses())
def test_every_stream_we_emit_passes_its_grammar(codec: Codec, response: Response) -> None:
    grammar = codec.grammar()
    for frame in frames_of(codec, response):
        list(grammar.feed(frame))
    list(grammar.close())


@every_codec
@given(response=responses(), share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_stream_ends_in_failure(codec: Codec, response: Response, share: float) -> None:
    frames = frames_of(codec, response)
    decoder = codec.stream_decoder(Losses())
    kept = frames[: int(len(frames) * share)]
    events: list[Event] = [event for frame in kept for event in decoder.feed(printed(frame))]
    if any(isinstance(event, ResponseEnd) for event in events):
        return  # what was cut off came after the end
    last = list(decoder.close())
    assert isinstance(last[-1], ResponseFailed) or _finished(codec, kept)


# A stream has ended once its reason came; only usage and [DONE] were cut off
_REASONS = {"openai-chat": b'"finish_reason":"', "bedrock-converse": b'"stopReason"'}


def _finished(codec: Codec, frames: list[Frame]) -> bool:
    reason = _REASONS.get(codec.name)
    return bool(reason) and any(reason in printed(frame).data for frame in frames)


@every_codec
@given(response=responses(), share=st.floats(0, 1))
def test_a_failed_stream_passes_its_grammar(codec: Codec, response: Response, share: float) -> None:
    events = list(unfold(response))
    encoder, grammar = codec.stream_encoder(Losses()), codec.grammar()
    kept = events[: int((len(events) - 1) * share)]
    while kept and not _between_parts(kept):
        kept.pop()
    failed = ResponseFailed(codec.decode_error(codec.encode_error(_FAILURE)[1], 500) or _FAILURE)
    for event in [*kept, failed]:
        for frame in encoder.feed(event):
            list(grammar.feed(frame))
    list(grammar.close())


def _between_parts(events: list[Event]) -> bool:
    return isinstance(events[-1], PartEnd | ResponseStart)


_FAILURE = Failure("overloaded", "try later", 503)


@every_codec
@pytest.mark.parametrize(
    "kind",
    [
        "bad_request",
        "context_too_long",
        "unauthenticated",
        "forbidden",
        "not_found",
        "rate_limit",
        "server",
        "overloaded",
    ],
)
def test_an_error_survives_its_wire(codec: Codec, kind: Any) -> None:
    status, body = codec.encode_error(Failure(kind, "what happened"))
    back = codec.decode_error(plain(body), status)
    assert back is not None
    assert back.kind == kind
    assert "what happened" in back.message


# Within one protocol


def places(value: Any) -> list[dict[str, Any]]:
    """Every object of a wire into which an unknown field can be put."""
    found: list[dict[str, Any]] = []
    match value:
        case dict():
            found.append(value)
            found += [place for inner in value.values() for place in places(inner)]
        case list():
            found += [place for inner in value for place in places(inner)]
        case _:
            pass
    return found


@every_codec
@given(request=requests(), data=st.data())
def test_within_a_protocol_a_request_returns_unchanged(
    codec: Codec, request: Request, data: st.DataObject
) -> None:
    wire = plain(codec.encode_request(request, Losses()))
    place = data.draw(st.sampled_from(_open_places(wire)))
    place["x_unknown"] = data.draw(values.filter(lambda value: value is not None))
    assert plain(codec.encode_request(codec.decode_request(copy.deepcopy(wire), Losses()), Losses())) == wire


def _open_places(wire: Wire) -> list[dict[str, Any]]:
    """The body, its messages and tools; what a tool's arguments or schema hold is not wire."""
    inner = [
        item
        for key in ("messages", "input", "contents", "tools")
        for item in wire.get(key) or ()
        if isinstance(item, dict)
    ]
    blocks = [
        block
        for item in inner
        for key in ("content", "parts")
        for block in item.get(key) or ()
        if isinstance(block, dict)
    ]
    return [wire, *inner, *blocks]


@every_codec
@given(response=responses(), value=values.filter(lambda value: value is not None))
def test_within_a_protocol_a_response_returns_unchanged(codec: Codec, response: Response, value: Any) -> None:
    wire = plain(codec.encode_response(response, Losses()))
    wire["x_unknown"] = value
    assert (
        plain(codec.encode_response(codec.decode_response(copy.deepcopy(wire), Losses()), Losses())) == wire
    )


# Malformed wire


def only_wire_errors(*others: type[Exception]) -> AbstractContextManager[None]:
    """Whatever else is raised fails the test."""
    return suppress(WireError, *others)


def broken(data: st.DataObject, wire: Any) -> Any:
    """`wire` with one value somewhere replaced by any other."""
    wire = copy.deepcopy(wire)
    spots = [(place, key) for place in places(wire) for key in place]
    place, key = data.draw(st.sampled_from(spots))
    place[key] = data.draw(values)
    return wire


@every_codec
@given(request=requests(), data=st.data())
def test_a_malformed_request_raises_wire_errors_only(
    codec: Codec, request: Request, data: st.DataObject
) -> None:
    wire = broken(data, plain(codec.encode_request(request, Losses())))
    with only_wire_errors():
        back = codec.decode_request(wire, Losses())
        codec.encode_request(replace(back, extras=None), Losses())


@every_codec
@given(response=responses(), data=st.data())
def test_a_malformed_response_raises_wire_errors_only(
    codec: Codec, response: Response, data: st.DataObject
) -> None:
    wire = broken(data, plain(codec.encode_response(response, Losses())))
    with only_wire_errors():
        codec.decode_error(wire, 0)
        codec.decode_response(wire, Losses())


@every_codec
@given(response=responses(), data=st.data())
def test_a_malformed_stream_raises_wire_errors_only(
    codec: Codec, response: Response, data: st.DataObject
) -> None:
    frames = frames_of(codec, response)
    index = data.draw(st.integers(0, len(frames) - 1))
    body = frames[index].data
    spoiled = (
        data.draw(st.binary(max_size=20))
        if isinstance(body, bytes)
        else jsontext.encode(broken(data, plain(body)))
    )
    frames[index] = Frame(frames[index].event, spoiled)
    with only_wire_errors(UpstreamError):
        fold(events_of(codec, frames))


@every_codec
@given(body=st.dictionaries(st.text(max_size=10), values, max_size=4))
def test_any_object_is_refused_with_a_wire_error_or_read(codec: Codec, body: Wire) -> None:
    for decode in (codec.decode_request, codec.decode_response):
        with only_wire_errors():
            decode(plain(body), Losses())
