"""The marks we hold ourselves to, for an Anthropic client and a Chat upstream."""

from collections.abc import Iterator

from bench.contenders import DRAGOMAN, FLOOR, LITELLM, LITELLM_WITH_MSGSPEC

Times = dict[str, float]

REQUEST_GAIN, REQUEST_FLOORS = 2, 4
STREAM_GAIN, STREAM_MICROSECONDS = 20, 8
LITELLM_MICROSECONDS = 140  # per event, on the machine where the bar was set


def bars(request: Times, stream: Times) -> Iterator[str]:
    if DRAGOMAN.name not in request or DRAGOMAN.name not in stream:
        yield "not measured: dragoman is missing"
        return
    ours, floor = request[DRAGOMAN.name], request[FLOOR.name]
    yield line("request, times the floor", ours / floor, REQUEST_FLOORS, at_most=True)
    for peer in (LITELLM, LITELLM_WITH_MSGSPEC):
        if peer.name in request:
            yield line(f"request, {peer.name} over ours", request[peer.name] / ours, REQUEST_GAIN)
    ours = stream[DRAGOMAN.name]
    for peer in (LITELLM, LITELLM_WITH_MSGSPEC):
        if peer.name in stream:
            yield line(f"stream event, {peer.name} over ours", stream[peer.name] / ours, STREAM_GAIN)
    if LITELLM.name in stream:
        scaled = STREAM_MICROSECONDS * stream[LITELLM.name] / LITELLM_MICROSECONDS
        yield line("stream event, µs (bar scaled to this machine)", ours, scaled, at_most=True)


def line(what: str, value: float, bar: float, at_most: bool = False) -> str:
    kept = value <= bar if at_most else value >= bar
    return (
        f"{what:48}{value:7.2f}   bar {'<=' if at_most else '>='} {bar:5.2f}   {'kept' if kept else 'MISSED'}"
    )
