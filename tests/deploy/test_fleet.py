"""Three gateways behind a balancer on one PostgreSQL, as real processes on machines of their own.

Everything is waited for by what the balancer, the model or the database says, and counted.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman.core import jsontext
from fleet.balancers import BALANCERS
from fleet.fleet import ADMIN_KEY, NAMES, NARROW_KEY, POOR_KEY, Fleet, chat, running_fleet
from fleet.namespaces import NotAllowed
from gateway.conversations.servers import NoServer
from gateway.conversations.stands import responses
from gateway.plain import Got, send
from gateway.sockets import ask, connected
from gateway.stands import CLIENT_KEY
from waiting import wait_until


@pytest.fixture(scope="module", params=["haproxy"])
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Behind HAProxy, or the balancer that the test names."""
    # not in a folder of pytest: another run of it closes those to the database's user, which is another one
    with tempfile.TemporaryDirectory(prefix="dragoman-fleet-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            with running_fleet(folder, request.param) as fleet:
                yield fleet
        except (NotAllowed, NoServer) as reason:
            pytest.skip(f"no fleet here: {reason}")


either_balancer = pytest.mark.parametrize("fleet", BALANCERS, indirect=True)


def test_stored_responses_go_on_at_any_gateway(fleet: Fleet) -> None:
    one, two, three = (responses(fleet.direct(name)).responses for name in NAMES)
    first = one.create(model="up:m", input="first")
    second = two.create(model="up:m", input="second", previous_response_id=first.id)
    assert three.retrieve(second.id).output_text == "You said: second"
    items = three.input_items.list(second.id, order="asc").data
    assert [item.content[0].text for item in items if getattr(item, "role", "") == "user"] == [  # type: ignore[union-attr] - text
        "first",
        "second",
    ]


@either_balancer
def test_websockets_go_on_at_any_gateway_if_stored(fleet: Fleet) -> None:
    with connected(fleet.url) as socket:  # through the balancer
        stored = ask(socket, model="up:m", input="first")
        unstored = ask(socket, model="up:m", input="second", previous_response_id=stored["id"], store=False)
        third = ask(socket, model="up:m", input="third", previous_response_id=unstored["id"], store=False)
        assert third["status"] == "completed"
    for name in NAMES:
        with connected(fleet.direct(name)) as socket:
            again = ask(socket, model="up:m", input="again", previous_response_id=stored["id"])
            assert again["status"] == "completed"
            lost = ask(socket, model="up:m", input="again", previous_response_id=unstored["id"])
            assert lost["error"]["code"] == "previous_response_not_found"


def test_concurrency_of_a_key_is_that_of_all_gateways(fleet: Fleet) -> None:
    fleet.model.released = False
    held = [
        threading.Thread(target=chat, args=(fleet.direct(name), f"slow {name}", NARROW_KEY))
        for name in NAMES[:2]
    ]
    for thread in held:
        thread.start()
    wait_until(lambda: {"slow g1", "slow g2"} <= set(fleet.model.requests))
    refused = chat(fleet.direct("g3"), "one more", NARROW_KEY)
    assert (refused.status, "retry-after" in refused.headers) == (429, True)
    fleet.model.released = True
    for thread in held:
        thread.join()
    wait_until(lambda: chat(fleet.direct("g3"), "now", NARROW_KEY).status == 200)


def test_a_budget_is_that_of_all_gateways(fleet: Fleet) -> None:
    """25 tokens a day, 10 for each exchange: the third one begins within the budget, the fourth does not."""
    got = [chat(fleet.direct(name), "hi", POOR_KEY).status for name in (*NAMES, *NAMES)]
    assert got == [200, 200, 200, 429, 429, 429]
    used = {
        send(fleet.direct(name), "GET", "/v1/key", key=POOR_KEY).json["budgets"][0]["used"] for name in NAMES
    }
    assert used == {30}


def test_a_session_keeps_its_account_at_every_gateway(fleet: Fleet) -> None:
    for session in range(6):
        begun = len(fleet.model.accounts)
        for name in (*NAMES, *NAMES):
            assert (
                chat(fleet.direct(name), "hi", model="pool:m", headers={"x-session-id": f"s{session}"}).status
                == 200
            )
        assert len(set(fleet.model.accounts[begun:])) == 1


def test_a_job_is_seen_at_every_gateway(fleet: Fleet) -> None:
    job = responses(fleet.direct("g1")).responses.create(model="up:m", input="later", background=True)
    for name in NAMES:
        client = responses(fleet.direct(name)).responses
        wait_until(lambda client=client: client.retrieve(job.id).status == "completed")
    assert fleet.model.requests.count("later") == 1


@either_balancer
def test_the_inspector_shows_the_exchanges_of_one_gateway(fleet: Fleet) -> None:
    """A recording stays where it was made. `x-served-by` of the balancer says where."""
    asked = chat(fleet.url, "inspect me")
    id, name = asked.headers["request-id"], fleet.served_by(asked.headers)
    for each in NAMES:
        wait_until(lambda each=each: recorded(fleet, each, id) == (each == name))
    for path in ("/inspect", "/inspect/api/exchanges", "/metrics"):
        assert send(fleet.url, "GET", path, key=ADMIN_KEY).status == 404


def recorded(fleet: Fleet, name: str, id: str) -> bool:
    return send(fleet.direct(name), "GET", f"/inspect/api/exchanges/{id}", key=ADMIN_KEY).status == 200


class Load:
    """Threads that ask again and again over connections that they keep; `failures` must stay empty."""

    def __init__(self, fleet: Fleet, threads: int) -> None:
        self.answers, self.failures = Counter[str](), list[str]()
        self._fleet, self._ended = fleet, False
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _run(self) -> None:
        connection = http.client.HTTPConnection(self._fleet.url.removeprefix("http://"), timeout=60)
        body = jsontext.encode({"model": "up:m", "messages": [{"role": "user", "content": "load"}]})
        headers = {"authorization": f"Bearer {CLIENT_KEY}"}
        while not self._ended:
            try:
                connection.request("POST", "/v1/chat/completions", body, headers)
                response = connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                connection.close()
                continue
            if response.status == 200:
                self.answers[self._fleet.served_by(response.headers)] += 1
            else:
                self.failures.append(f"{response.status} {text[:200]!r}")

    @contextmanager
    def running(self) -> Iterator[Load]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended = True
            for thread in self._threads:
                thread.join()

    def wait_for_more(self, name: str, count: int = 20) -> None:
        before = self.answers[name]
        wait_until(lambda: self.failures or self.answers[name] >= before + count)


@either_balancer
def test_a_rolling_restart_at_load_fails_no_request(fleet: Fleet) -> None:
    with Load(fleet, 6).running() as load:
        for name in NAMES:
            load.wait_for_more(name)
            assert fleet.restart(name) == 0
            load.wait_for_more(name)
    assert load.failures == []


@either_balancer
def test_a_killed_gateway_costs_what_it_had_under_way(fleet: Fleet) -> None:
    fleet.model.released = False
    streams = [opened_stream(fleet, f"slow stream {number}") for number in range(6)]
    served = [fleet.served_by(response.headers) for response in streams]
    assert set(served) == set(NAMES)
    fleet.kill("g2")
    quick = [chat(fleet.url, f"quick {number}").status for number in range(12)]
    assert quick == [200] * 12
    fleet.model.released = True
    ends = ["[DONE]" in read_all(response) for response in streams]
    assert ends == [name != "g2" for name in served]
    fleet.start("g2")


def opened_stream(fleet: Fleet, text: str) -> http.client.HTTPResponse:
    """A response whose head has come."""
    connection = http.client.HTTPConnection(fleet.url.removeprefix("http://"), timeout=60)
    body = {"model": "up:m", "messages": [{"role": "user", "content": text}], "stream": True}
    headers = {"authorization": f"Bearer {CLIENT_KEY}"}
    connection.request("POST", "/v1/chat/completions", jsontext.encode(body), headers)
    return connection.getresponse()


def read_all(response: http.client.HTTPResponse) -> str:
    got = b""
    try:
        while piece := response.read1():
            got += piece
    except (OSError, http.client.HTTPException):
        pass
    return got.decode()


def respond(fleet: Fleet, **body: Any) -> Got:
    return send(fleet.url, "POST", "/v1/responses", jsontext.encode({"model": "up:m", "input": "hi", **body}))


def test_the_database_is_gone_for_a_while(fleet: Fleet) -> None:
    acknowledged = [respond(fleet, store=True).json["id"] for _ in range(6)]
    with Load(fleet, 3).running() as load:
        fleet.database.stop()
        for _ in range(6):
            assert respond(fleet).json["store"] is False
            assert respond(fleet, store=False).status == 200
            for need in ({"store": True}, {"previous_response_id": acknowledged[0]}, {"background": True}):
                refused = respond(fleet, **need)
                assert (need, refused.status, "retry-after" in refused.headers) == (need, 503, True)
        for name in NAMES:
            load.wait_for_more(name)
        assert fleet.balancer.states() == dict.fromkeys(NAMES, "UP")
        fleet.start_database()
        for name in NAMES:
            client = responses(fleet.direct(name)).responses
            for id in acknowledged:
                wait_until(lambda client=client, id=id: is_retrieved(client, id))
        wait_until(lambda: respond(fleet, store=True).status == 200)
    assert load.failures == []


def is_retrieved(client: Any, id: str) -> bool:
    try:
        return client.retrieve(id).status == "completed"
    except openai.InternalServerError:  # not yet. A 404, which would be a loss, is another error
        return False
