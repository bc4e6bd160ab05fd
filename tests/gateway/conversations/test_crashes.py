"""Gateways that are killed: what was acknowledged is there, nothing is there by half, and others go on."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic import beta_tool

from cli.gateways import address, serving, surroundings
from dragoman.core import jsontext
from gateway.conversations import balancers
from gateway.conversations.databases import Database, PostgresDatabase
from gateway.conversations.stands import messages, responses
from gateway.plain import send
from waiting import LONG, wait_until

# A gateway that dies between writing a turn and telling its client, where the turn says so
_MORTAL = """
import os, sys
from dragoman.gateway.conversations.store import LazyStore
put = LazyStore.put
async def put_and_die(self, turn):
    if b"die before" in turn.items:
        os.kill(os.getpid(), 9)
    await put(self, turn)
    if b"die after" in turn.items:
        os.kill(os.getpid(), 9)
LazyStore.put = put_and_die
sys.argv = ["dragoman", "serve", "--port", "0"]
from dragoman.cli import main
main()
"""


@contextlib.contextmanager
def mortal(folder: Path, store: str) -> Iterator[str]:
    log = folder / "mortal.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _MORTAL], cwd=folder, env=surroundings(DRAGOMAN_STORE__URL=store),
            stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield address(log, process)
        assert process.wait(LONG) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stream", (False, True), ids=("whole", "streamed"))
@pytest.mark.parametrize("when", ("before", "after"))
def test_killed_between_the_write_and_the_reply(database: Database, tmp_path: Path, when: str, stream: bool):
    """The client never hears an end; what is stored is whole, or not there at all."""
    with mortal(tmp_path, database.url) as url:
        first = responses(url).responses.create(model="demo", input="hello")
        body = {"model": "demo", "input": f"die {when}", "previous_response_id": first.id, "stream": stream}
        received = b""
        with contextlib.suppress(OSError, Exception):
            received = send(url, "POST", "/v1/responses", jsontext.encode(body)).body
        assert b"response.completed" not in received
    with serving(tmp_path, DRAGOMAN_STORE__URL=database.url) as (url, _, _):
        client = responses(url)
        assert client.responses.retrieve(first.id).output == first.output
        again = client.responses.create(model="demo", input="again", previous_response_id=first.id)
        assert again.status == "completed"
        rows = database.rows("select id, items, reply from dragoman_turns where previous is not null")
        assert len(rows) == (2 if when == "after" else 1)
        for id, items, reply in rows:
            assert jsontext.decode(reply)["id"] == id
            assert jsontext.decode(items)
            assert client.responses.retrieve(id).id == id
            client.responses.create(model="demo", input="on", previous_response_id=id)


def test_killed_under_load_nothing_acknowledged_is_lost(database: Database, tmp_path: Path):
    """Several clients converse; the gateway is killed in the middle of it."""
    acknowledged: list[tuple[str, str | None]] = []
    enough = threading.Event()

    def converse(url: str) -> None:
        client, previous = responses(url), None
        with contextlib.suppress(openai.APIError):
            while True:
                more: Any = {"previous_response_id": previous} if previous else {}
                reply = client.responses.create(model="demo", input="hello", store=True, **more)
                acknowledged.append((reply.id, previous))
                previous = reply.id
                if len(acknowledged) >= 40:
                    enough.set()

    with serving(tmp_path, DRAGOMAN_STORE__URL=database.url) as (url, process, _):
        clients = [threading.Thread(target=converse, args=(url,)) for _ in range(4)]
        for client in clients:
            client.start()
        assert enough.wait(60)
        process.kill()
        for client in clients:
            client.join(30)
    with serving(tmp_path, DRAGOMAN_STORE__URL=database.url) as (url, _, _):
        for id, previous in acknowledged:
            kept = responses(url).responses.retrieve(id)
            assert (kept.id, kept.previous_response_id, kept.status) == (id, previous, "completed")
        last = acknowledged[-1][0]
        responses(url).responses.create(model="demo", input="on", previous_response_id=last)
    for id, reply in database.rows("select id, reply from dragoman_turns"):
        assert jsontext.decode(reply)["id"] == id


def test_a_full_disk(tmp_path: Path):
    """The file may not grow any more: who insists hears an error, who does not an answer that says so."""
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000)); "
    started = limited + "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    run = started + "sys.argv = ['dragoman', 'serve', '--port', '0']; from dragoman.cli import main; main()"
    log = tmp_path / "full.log"
    store = f"sqlite:///{tmp_path}/store.db"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", run], cwd=tmp_path, env=surroundings(DRAGOMAN_STORE__URL=store),
            stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        client: Any = responses(address(log, process))
        kept: list[str] = []
        while (reply := client.responses.create(model="demo", input="x" * 50_000)).store:
            kept.append(reply.id)
            assert len(kept) < 100, "it is never full"
        assert kept
        with pytest.raises(openai.InternalServerError, match="could not be stored"):
            client.responses.create(model="demo", input="x" * 700_000, store=True)
        with pytest.raises(anthropic.InternalServerError, match="could not be stored"):
            messages(address(log, process)).beta.messages.thread(model="demo", max_tokens=9).send(
                {"role": "user", "content": "x" * 700_000}
            )
    finally:
        process.kill()
        process.wait()
    with serving(tmp_path, DRAGOMAN_STORE__URL=store) as (url, _, _):
        for id in kept:
            assert responses(url).responses.retrieve(id).id == id
        responses(url).responses.create(model="demo", input="on", previous_response_id=kept[-1], store=True)


def test_a_database_that_goes_away_and_comes_back(postgresql: PostgresDatabase, tmp_path: Path):
    """Nobody may connect for a while: the gateway stays, says so, and stores again afterwards."""
    name = postgresql.name
    admin = PostgresDatabase(postgresql.server, "postgres")
    with serving(tmp_path, DRAGOMAN_STORE__URL=postgresql.url) as (url, _, log):
        client: Any = responses(url)
        first = client.responses.create(model="demo", input="hello")
        admin.rows(f"alter database {name} allow_connections false")
        admin.rows(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
        assert client.responses.create(model="demo", input="hello").store is False
        needing: list[dict[str, Any]] = [{"store": True}, {"previous_response_id": first.id}]
        for need in needing:
            with pytest.raises(openai.InternalServerError, match=r"503 - .*cannot be read") as refused:
                client.responses.create(model="demo", input="on", **need)
            assert refused.value.response.headers["retry-after"] == "2"
        admin.rows(f"alter database {name} allow_connections true")
        again = client.responses.create(model="demo", input="on", previous_response_id=first.id)
        assert again.store
        assert "secret-pw" not in log.read_text()


@beta_tool
def read_file(path: str) -> str:
    """Reads a file."""
    return f"the contents of {path}"


BALANCERS = {"own": balancers.own, "nginx": balancers.nginx}


@pytest.mark.parametrize("kind", BALANCERS)
def test_two_gateways_behind_a_balancer_and_one_is_killed(
    postgresql: PostgresDatabase, tmp_path: Path, kind: str
):
    if kind == "nginx" and not shutil.which("nginx"):
        pytest.skip("nginx is not installed here")
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    store = postgresql.url
    with (
        serving(folders[0], DRAGOMAN_STORE__URL=store) as (one, dies, _),
        serving(folders[1], DRAGOMAN_STORE__URL=store) as (two, _, log),
        BALANCERS[kind]([one, two], tmp_path) as url,
    ):
        # with the SDKs' own retries: a connection that was kept alive may lead to the one that dies
        client = responses(url).with_options(max_retries=2)
        previous: Any = None
        thread = messages(url).with_options(max_retries=2).beta.messages.thread(
            model="demo", max_tokens=99, tools=[read_file],
            messages=[{"role": "user", "content": "Please read the file notes.txt"}],
        )  # fmt: skip
        for number in range(6):
            if number == 3:
                dies.kill()
                dies.wait()
            more: Any = {"previous_response_id": previous} if previous else {}
            reply = client.responses.create(model="demo", input=f"turn {number}", **more)
            previous = reply.id
            if number:
                thread.append({"role": "user", "content": f"Please read the file notes{number}.txt"})
            last: Any = thread.tool_runner().until_done()
            assert "the contents of" in last.content[-1].text
        items = client.responses.input_items.list(previous, limit=100, order="asc").data
        texts = [item.content[0].text for item in items if getattr(item, "role", "") == "user"]  # type: ignore[union-attr] - text
        assert texts == [f"turn {number}" for number in range(6)]
        wait_until(lambda: log.read_text().count('"client"') >= 9)  # lines are written together
