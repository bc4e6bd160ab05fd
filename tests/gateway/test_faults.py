"""Whatever an upstream does wrong: the right error in the client's words, nothing left open, all alive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.demo import DemoApp
from dragoman.demo.answers import answer
from dragoman.demo.faults import Memory
from gateway.plain import Got, ask, asking, model_of, opened
from gateway.stands import HASTY, PROTOCOLS, UPSTREAM_KEY, Stand, configuration, gateway
from ports import closed_port
from waiting import wait_until

PAIRS = [(client, upstream) for client in PROTOCOLS for upstream in PROTOCOLS]
each_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[" over ".join(pair) for pair in PAIRS])


WAITS = {"hang": 0.15, "stall": 0.4}  # seconds; in the latter an answer has to begin


@pytest.fixture(scope="module")
def nowhere() -> str:
    return f"http://{closed_port()}"


@pytest.fixture(scope="module")
def impatient(behind: tuple[DemoApp, str], nowhere: str) -> Iterator[dict[str, Stand]]:
    """Gateways that wait only a moment: for an answer to begin (`hang`), for it to go on (`stall`)."""
    with (
        hasty(behind[1], nowhere, f"first_byte = {WAITS['hang']}, idle = 30") as hang,
        hasty(behind[1], nowhere, f"first_byte = 30, idle = {WAITS['stall']}") as stall,
    ):
        yield {"hang": hang, "stall": stall}


def hasty(upstream: str, nowhere: str, timeouts: str) -> contextlib.AbstractContextManager[Stand]:
    """One of its upstreams is down, and one it waits for."""
    text = configuration(upstream).replace("first_byte = 30, idle = 30", timeouts)
    text += f'\n[providers.down]\nprotocol = "openai-chat"\nbase_url = "{nowhere}/v1"\napi_key = "x"\n'
    text += (
        f'\n[providers.good]\nprotocol = "anthropic"\nbase_url = "{upstream}"\napi_key = "{UPSTREAM_KEY}"\n'
    )
    return gateway(text, replace(HASTY, tries=2))


@pytest.fixture
def fast(impatient: dict[str, Stand]) -> dict[str, Stand]:
    for stand in impatient.values():
        stand.begin()
    return impatient


def tasks(stand: Stand) -> int:
    return len(asyncio.all_tasks(stand.gateway._tasks[0].get_loop()))


def settled(stand: Stand, behind: tuple[DemoApp, str], before: int) -> None:
    """Upstream cancelled, nothing under way, and the next request is answered."""
    wait_until(lambda: behind[0].under_way == 0)
    wait_until(lambda: stand.gateway.access_log.metrics.in_flight == len(stand.gateway.keep_alives) == 0)
    wait_until(lambda: tasks(stand) <= before)
    good = "good:m" if "good" in stand.gateway.config.providers else model_of("anthropic")
    got = ask(stand.url, "openai-chat", "still there?", good)
    assert got.text("openai-chat") == "You said: still there?"


# fault -> (status and kind of a whole answer), (status and kind of a streamed one)
FAULTS = {
    "hang": ((504, "timeout"), (504, "timeout")),
    "drop": ((500, "server"), (500, "server")),
    "stall": ((504, "timeout"), (200, "timeout")),
    "cut": ((502, "truncated"), (200, "truncated")),
    "cut 0": ((502, "truncated"), (502, "truncated")),
    "empty": ((500, "server"), (502, "truncated")),
    "garbage": ((500, "server"), (500, "server")),
    "malformed": ((500, "server"), (0, "server")),
    "fail": ((503, "overloaded"), (0, "overloaded")),
}  # no status: it depends on whether something arrived, and so went out, before
STATUS = {("anthropic", 503): 529}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", FAULTS)
@each_pair
def test_a_fault(
    fast: dict[str, Stand],
    stand: Stand,
    behind: tuple[DemoApp, str],
    client: str,
    upstream: str,
    fault: str,
    stream: bool,
) -> None:
    stand = fast.get(fault, stand)
    before = tasks(stand)
    got = ask(stand.url, client, f"hello [[fault: {fault}]]", model_of(upstream), stream)
    status, kind = FAULTS[fault][stream]
    failure = got.failure(client) if not forwarded_malformed(client, upstream, fault, stream) else None
    if failure is None:
        assert b"data: {broken\n\n" in got.body  # passed as it came: the client's own parser will say so
    else:
        assert (f"took more than {WAITS[fault]} s" if kind == "timeout" else "") in failure.message
        assert ("demo: too busy" if kind == "overloaded" else "") in failure.message
        assert failure.kind in (kind, "server")  # not every protocol tells a timeout from other failures
    if fault == "fail" and client == upstream and not stream:
        status = 529  # passed as it came
    if status:
        assert got.status == STATUS.get((client, status), status)
    settled(stand, behind, before)
    line = stand.records[0]
    assert line["status"] == got.status
    assert bool(line.get("error")) == (failure is not None)


def forwarded_malformed(client: str, upstream: str, fault: str, stream: bool) -> bool:
    return client == upstream and fault == "malformed" and stream


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_an_upstream_that_is_down(
    fast: dict[str, Stand], behind: tuple[DemoApp, str], client: str, stream: bool
) -> None:
    stand = fast["hang"]
    before = tasks(stand)
    got = ask(stand.url, client, "hello", "down:x", stream)
    assert got.status == STATUS.get((client, 503), 503)
    assert got.failure(client).kind == "overloaded"
    assert "Provider 'down' is not reachable" in got.failure(client).message
    assert stand.last()["tries"] == 2
    settled(stand, behind, before)


def pieces_of(upstream: str, text: str) -> int:
    """How many pieces the demo's stream has."""
    path, body = asking(upstream, text, "m", stream=True)
    query = {"alt": "sse"} if "?" in path else {}
    return len(answer("POST", path.partition("?")[0], query, {}, jsontext.encode(body), Memory()).pieces)


@each_pair
def test_a_stream_that_is_cut_at_every_event(
    stand: Stand, behind: tuple[DemoApp, str], client: str, upstream: str
) -> None:
    """It ends in a failure, wherever it is cut; only what had said its last word is whole."""
    before = tasks(stand)
    count = pieces_of(upstream, "hello there")
    failed = []
    for at in range(count + 1):
        got = ask(stand.url, client, f"hello there [[fault: cut {at}]]", model_of(upstream), stream=True)
        failed.append(not is_whole(got, client))
    whole = failed.index(False) if False in failed else count + 1
    assert failed == [at < whole for at in range(count + 1)]
    assert whole >= count - 2, "a stream that was cut passes for a whole one"
    assert failed[: count // 2] == [True] * (count // 2)
    settled(stand, behind, before)


def is_whole(got: Got, client: str) -> bool:
    try:
        failure = got.failure(client)
    except AssertionError:
        assert got.text(client) == "You said: hello there"
        return True
    assert failure.kind in ("truncated", "server"), failure
    return False


LEAVING = {"before the answer": "hang", "in the stream": "stall", "while it flows": "slow"}


@pytest.mark.parametrize("moment", LEAVING)
@each_pair
def test_a_client_that_leaves(
    stand: Stand, behind: tuple[DemoApp, str], client: str, upstream: str, moment: str
) -> None:
    """The upstream sees its connection closed, and nothing is left behind."""
    before, connected = tasks(stand), stand.gateway.client.connections
    words = "one two three four five six seven eight nine ten " * 20
    path, body = asking(client, f"{words}[[fault: {LEAVING[moment]}]]", model_of(upstream), stream=True)
    with opened(stand.url, path, jsontext.encode(body)) as connection:
        wait_until(lambda: behind[0].under_way == 1)
        if moment != "before the answer":
            assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
    wait_until(lambda: behind[0].under_way == 0)
    wait_until(lambda: stand.records)
    assert stand.records[0]["status"] == "gone"
    wait_until(lambda: stand.gateway.client.connections <= connected)
    settled(stand, behind, before)


@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_client_that_leaves_without_its_whole_answer(
    stand: Stand, behind: tuple[DemoApp, str], client: str
) -> None:
    before = tasks(stand)
    path, body = asking(client, "hello [[fault: hang]]", model_of("gemini"))
    with opened(stand.url, path, jsontext.encode(body)):
        wait_until(lambda: behind[0].under_way == 1)
    wait_until(lambda: behind[0].under_way == 0)
    settled(stand, behind, before)
    assert stand.records[0]["status"] == "gone"
