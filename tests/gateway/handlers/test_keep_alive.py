"""While an upstream is silent the client hears pings, before the first byte and after it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.events import ResponseStart
from dragoman.core.fields import Body
from dragoman.core.losses import Losses
from dragoman.demo import DemoApp
from dragoman.exchange import Exchange
from dragoman.framing import sse
from dragoman.gateway.handlers.relay import KeepAliveStream, KeepAliveTicker, StreamedReply
from dragoman.gateway.request import Attempt, ExchangeRecord, GatewayRequest, RoutedRequest
from dragoman.gateway.upstreams.routing import Target
from dragoman.http.server import ResponseWriter, ServerRequest
from dragoman.profiles import known
from dragoman.protocols import codec, server
from dragoman.serving.routes import RouteMatch
from gateway.canned import Answer, Canned, chunks, provider
from gateway.plain import Got, ask, asking, model_of, opened, send
from gateway.running import running
from gateway.sdks import SDKS, sdk_of, speaking
from gateway.stands import HASTY, PROTOCOLS, UPSTREAM_KEY, Stand, configuration, gateway
from waiting import wait_until

OFTEN = replace(HASTY, keep_alive_every=0.08, keep_alive_after=0.08)
PING = {
    "openai-chat": b": keep-alive\n\n",
    "openai-responses": b"event: response.created\ndata: ",
    "anthropic": b'event: ping\ndata: {"type": "ping"}\n\n',
    "gemini": b"\n",
    "gemini-interactions": b": keep-alive\n\n",
}
PAIRS = [
    (client, upstream)
    for client in PROTOCOLS
    for upstream in (client, PROTOCOLS[PROTOCOLS.index(client) - 1])
]
each_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[" over ".join(pair) for pair in PAIRS])
each_client = pytest.mark.parametrize("client", PROTOCOLS)


@pytest.fixture(scope="module")
def pinging(behind: tuple[DemoApp, str]) -> Iterator[Stand]:
    """A gateway that pings ten times a second; one provider is given up after a while."""
    text = configuration(behind[1])
    text += (
        text.partition("[providers.anthropic]")[2]
        .partition("[providers")[0]
        .join(["\n[providers.short]\n", ""])
        .replace("first_byte = 30", "first_byte = 0.3")
    )
    with gateway(text, OFTEN) as stand:
        yield stand


@pytest.mark.parametrize("fault", ["late", "pause"])
@each_pair
def test_pings(pinging: Stand, client: str, upstream: str, fault: str) -> None:
    """Every answer is right. A machine that stands still for a whole silence sends no ping: then again."""
    wait_until(lambda: has_pings(pinging, client, upstream, fault))


def has_pings(pinging: Stand, client: str, upstream: str, fault: str) -> bool:
    began = time.monotonic()
    got = ask(pinging.url, client, f"hello there [[fault: {fault}]]", model_of(upstream), stream=True)
    most = 2 + (time.monotonic() - began) / OFTEN.keep_alive_every
    assert got.text(client) == "You said: hello there"
    if client == "openai-responses":
        return check_events(got.body, most)
    ping, rest = PING[client], got.body
    while rest.startswith(ping):  # before a pause only where the machine is slow
        rest = rest.removeprefix(ping)
    if client != "gemini":
        assert got.body.count(ping) <= most
    inside = ping if client != "gemini" else b"\n\n\n"
    return inside in rest if fault == "pause" else rest != got.body


def check_events(body: bytes, most: float) -> bool:
    """Codex counts only events, so `response.in_progress` is repeated, of the same response."""
    events = [jsontext.decode(frame.data) for frame in sse.Decoder().feed(body)]
    repeated = [event for event in events if event["type"] == "response.in_progress"]
    assert len(repeated) <= 1 + most
    assert [event["type"] for event in events].count("response.created") == 1
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(len(numbers)))
    assert b": keep-alive" not in body
    return len(repeated) >= 2


@pytest.mark.parametrize("fault", ["late", "pause"])
@pytest.mark.parametrize("mode", ["streamed", "astreamed"])
@pytest.mark.parametrize("client", SDKS)
def test_every_sdk_takes_pings(pinging: Stand, client: str, mode: str, fault: str) -> None:
    sdk = sdk_of(client, pinging.url)
    request = sdk.request(model_of("gemini"), sdk.user(f"hello there [[fault: {fault}]]"))
    assert speaking(sdk, mode)(request).text == "You said: hello there"


@pytest.mark.parametrize("fault", ["late", "pause"])
def test_pings_in_an_array(pinging: Stand, fault: str) -> None:
    """A Gemini client that did not ask for events gets its array, with blanks between the entries."""
    path, body = asking("gemini", f"hello there [[fault: {fault}]]", model_of("anthropic"), stream=True)
    got = send(pinging.url, "POST", path.removesuffix("?alt=sse"), jsontext.encode(body))
    parts = [part for entry in got.json for part in entry["candidates"][0]["content"].get("parts", ())]
    assert "".join(part["text"] for part in parts if not part.get("thought")) == "You said: hello there"
    assert got.body.count(b"\n") >= 2


def test_a_stored_response_has_the_id_under_which_it_is_found(pinging: Stand) -> None:
    path, body = asking("openai-responses", "hello there [[fault: late]]", model_of("gemini"), stream=True)
    got = send(pinging.url, "POST", path, jsontext.encode({**body, "store": True}))
    assert got.body.startswith(b": keep-alive\n\n")
    found = re.search(rb'"id":"(resp_[^"]+)"', got.body)
    assert found
    assert send(pinging.url, "GET", f"{path}/{found[1].decode()}").status == 200


def test_a_failure_after_pings_names_its_response(pinging: Stand) -> None:
    """Nothing is known of one that is stored until the upstream answers."""
    path, body = asking("openai-responses", "hello there [[fault: hang]]", "short:m", stream=True)
    got = send(pinging.url, "POST", path, jsontext.encode({**body, "store": True}))
    assert got.body.startswith(b": keep-alive\n\n")
    replies = [jsontext.decode(line)["response"] for line in re.findall(rb"data: (.*)", got.body)]
    assert replies[-1]["status"] == "failed"
    assert {reply["model"] for reply in replies} == {"short:m"}
    assert all(reply["created_at"] > 1_700_000_000 for reply in replies)
    (id,) = {reply["id"] for reply in replies}
    assert id != "resp_dragoman"


def pinged(got: Got, client: str) -> bool:
    return got.status == 200 and got.body.startswith(PING[client])


@each_client
def test_a_failure_after_pings_is_reported_in_the_stream(pinging: Stand, client: str) -> None:
    """The status has gone out with the first ping; a later failure ends the stream with an error event."""
    got = ask(pinging.url, client, "hello [[fault: hang]]", "short:m", stream=True)
    assert pinged(got, client)
    assert client == "openai-responses" or got.body.count(PING[client]) > 1
    assert "took more than 0.3 s to answer" in got.failure(client).message
    line = pinging.last()
    assert (line["status"], line["tries"]) == (200, 3)
    assert "took more than" in line["error"]


def test_a_failure_after_pings_in_an_array(pinging: Stand) -> None:
    path, body = asking("gemini", "hello [[fault: hang]]", "short:m", stream=True)
    got = send(pinging.url, "POST", path.removesuffix("?alt=sse"), jsontext.encode(body))
    assert got.json[-1]["error"]["status"] == "DEADLINE_EXCEEDED"


@each_client
def test_another_target_may_answer_after_pings(behind: tuple[DemoApp, str], client: str) -> None:
    """Pings are no answer: retries and fallbacks go on behind them."""
    slow = Canned(Answer(200, 5.0))
    with running(slow) as dead:
        text = provider("slow", dead, timeouts="{ first_byte = 0.4, idle = 0.4 }") + configuration(behind[1])
        listed = f'["slow:x", "{model_of("openai-responses")}"]'
        pace = replace(OFTEN, tries=1)
        with gateway(f"{text}\n[models]\nm = {listed}\n", pace) as stand:
            got = ask(stand.url, client, "hello there", "m", stream=True)
            assert pinged(got, client)
            assert got.text(client) == "You said: hello there"
            assert stand.last()["provider"] == "openai-responses"


def test_no_ping_without_need(behind: tuple[DemoApp, str]) -> None:
    """A stream that flows is left alone, however long it takes."""
    with gateway(
        configuration(behind[1]), replace(OFTEN, keep_alive_every=1.0, keep_alive_after=1.0)
    ) as stand:
        words = "one two three four five six seven eight nine ten " * 7
        got = ask(stand.url, "openai-chat", f"{words}[[fault: slow]]", model_of("openai-chat"), stream=True)
        assert got.text("openai-chat").startswith("You said: one two")
        assert PING["openai-chat"] not in got.body


def test_a_status_is_kept_back_longer_than_a_ping(behind: tuple[DemoApp, str]) -> None:
    """An error with a status is worth more to a client than an early ping: it knows how to try again."""
    text = configuration(behind[1]) + provider(
        "short", behind[1], api_key=f'"{UPSTREAM_KEY}"', timeouts="{ first_byte = 0.3 }"
    )
    with gateway(text, replace(OFTEN, keep_alive_after=5.0, tries=1)) as stand:
        for client in PROTOCOLS:
            got = ask(stand.url, client, "hello there [[fault: late]]", model_of("gemini"), stream=True)
            assert got.text(client) == "You said: hello there"
            assert client == "openai-responses" or not got.body.startswith(PING[client])
            assert ask(stand.url, client, "hello [[fault: hang]]", "short:m", stream=True).status == 504


def test_nothing_overtakes_a_ping() -> None:
    """The answer begins with a ping that the client has not taken yet when the first words come."""

    async def work() -> list[bytes]:
        slow = asyncio.Event()
        line = Slow(slow)
        ticker, writer = KeepAliveTicker(OFTEN), ResponseWriter(line)
        request = plain("anthropic", writer)
        keep_alive = StreamedReply(request)
        ticker.add(keep_alive)
        for _ in range(4):
            ticker.tick()
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.02, slow.set)
        target = Target(known()["demo"], "demo")
        routed = RoutedRequest(request, Body(b"{}", "anthropic"), "m", True, None, (target,))
        await keep_alive.relay(Attempt(routed, target, Exchange("anthropic", "anthropic")), Flowing())
        ticker.remove(keep_alive)
        return line.written

    head, *pieces = asyncio.run(work())
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert pieces == [PING["anthropic"], Flowing.event, b""]


class Slow:
    """A connection whose client takes what is written when it is `taken`."""

    close = chunked = head_only = full = False

    def __init__(self, taken: asyncio.Event) -> None:
        self.taken, self.written = taken, list[bytes]()

    def head_lines(self) -> bytes:
        return b""

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def drain(self) -> None:
        await self.taken.wait()

    def upgrade(self, headers: object, max_size: int) -> None:
        return None


class Flowing:
    """A reply of one event, all there."""

    event = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    status = 200

    def __init__(self) -> None:
        self.headers = {"content-type": "text/event-stream"}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.event

    async def read(self, limit: int) -> bytes:
        return self.event

    def close(self) -> None:
        pass


def plain(client: str, writer: ResponseWriter) -> GatewayRequest:
    incoming = ServerRequest("POST", "/", b"", {})
    record = ExchangeRecord("id", client, "generate")
    return GatewayRequest(
        codec(client), server(client), RouteMatch("generate"), incoming, {}, "", "", writer, record
    )


def test_no_ping_breaks_into_an_event(pinging: Stand) -> None:
    """An upstream that stops inside an event: the half of it waits, and the ping goes before it."""
    events = chunks("well", "done")
    half = len(events[1]) // 2
    answer = Answer(
        200, events[0], events[1][:half], 0.4, events[1][half:], *events[2:], content_type="text/event-stream"
    )
    with running(Canned(answer)) as url, gateway(provider("one", url), OFTEN) as stand:
        got = ask(stand.url, "openai-chat", "hi", "m", stream=True)
        assert got.text("openai-chat") == "welldone"
        assert got.body == events[0] + PING["openai-chat"] * got.body.count(PING["openai-chat"]) + b"".join(
            events[1:]
        )


def test_whole_answers_are_not_pinged(pinging: Stand) -> None:
    got = ask(pinging.url, "openai-chat", "hello [[fault: late]]", model_of("anthropic"))
    assert got.json["choices"][0]["message"]["content"] == "You said: hello"


def test_a_client_that_does_not_read_keeps_nobody_waiting() -> None:
    """Pings go out in tasks of their own."""

    async def work() -> list[int]:
        lines = [Slow(asyncio.Event()), Slow(asyncio.Event())]
        lines[1].taken.set()
        ticker = KeepAliveTicker(OFTEN)
        streams = [KeepAliveStream(ResponseWriter(line), b"ping", _nothing) for line in lines]
        for stream in streams:
            stream.writer.begun = True
            ticker.add(stream)
        for _ in range(6):
            ticker.tick()
            await asyncio.sleep(0)
        streams[1].busy = True  # a piece is being written: no ping beside it
        for _ in range(6):
            ticker.tick()
            await asyncio.sleep(0)
        for stream in streams:
            ticker.remove(stream)
        await asyncio.sleep(0)
        return [len(line.written) for line in lines]

    assert asyncio.run(work()) == [1, 3]


async def _nothing() -> None:
    pass


def test_after_an_opening_the_stream_still_has_events_to_repeat() -> None:
    """The first event of the answer becomes a second `response.in_progress`, which can be repeated, too."""
    responses = codec("openai-responses")

    def begin(id: str) -> bytes:
        frames = responses.stream_encoder(Losses()).feed(ResponseStart(id, "m"))
        return b"".join([piece for frame in frames for piece in sse.Encoder().feed(frame)])

    async def work() -> list[bytes]:
        line = Slow(asyncio.Event())
        line.taken.set()
        writer = ResponseWriter(line)
        writer.begun = True
        events = responses.keep_alive_events
        stream = KeepAliveStream(writer, responses.keep_alive, _nothing, events, lambda: begin("req"))
        await stream.send()  # the opening
        await writer.piece(stream.renumber(begin("other")))
        await stream.send()
        return line.written

    sent = b"".join(asyncio.run(work()))
    events = [jsontext.decode(frame.data) for frame in sse.Decoder().feed(sent)]
    assert responses.keep_alive not in sent
    assert [event["type"] for event in events][-1] == "response.in_progress"
    assert len({event["response"]["id"] for event in events}) == 1
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_slow_client_does_not_make_the_gateway_swallow_the_stream() -> None:
    """Backpressure from end to end: the upstream waits for the client."""
    piece = chunks("x" * 60_000)[1]
    sent: list[int] = []  # by each answer; one whose reader has left goes on for nobody

    class Fountain:
        async def __call__(self, scope, receive, send) -> None:
            if scope["type"] == "lifespan":
                await DemoApp()(scope, receive, send)
                return
            await receive()
            own = len(sent)
            sent.append(0)
            kind = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": kind})
            for _ in range(1000):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                sent[own] += len(piece)

    with running(Fountain()) as url, gateway(provider("one", url), HASTY) as stand:
        for number, client in enumerate(("openai-chat", "anthropic")):
            path, body = asking(client, "hi", "m", stream=True)
            with opened(stand.url, path, jsontext.encode(body)) as connection:
                wait_until(lambda number=number: len(sent) > number and sent[number] > 500_000)
                wait_until(lambda number=number: is_still(lambda: sent[number]))
                assert sent[number] < 25_000_000  # of sixty; most of it in the sockets' own buffers
                connection.recv(65536)
            wait_until(lambda: stand.gateway.client.connections == 0)


def is_still(count: Callable[[], int]) -> bool:
    before = count()
    time.sleep(0.2)
    return count() == before
