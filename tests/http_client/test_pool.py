"""Connections are kept, shared, and given up in time; a request is sent once."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from dragoman.http.client import Client, IdleConnections, ReplyBroken, Timeouts
from dragoman.http.client import connection as connections
from dragoman.http.client.reply import HIGH_WATER, HttpReply
from http_client.conftest import Run
from http_client.servers import answering, listening, read_request, until

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def ask(client: Client, url: str) -> bytes:
    reply = await client.send("POST", url, {}, b"{}", Timeouts(30, 30, 30))
    return await reply.read(1 << 24)


def test_one_connection_serves_requests_in_a_row(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(ANSWER)) as seen:
            client = Client(environ={})
            for _ in range(5):
                assert await ask(client, seen.url) == b"ok"
            assert (seen.opened, len(seen.requests), client.connections) == (1, 5, 1)
            await client.close()

    run(work())


def test_requests_at_the_same_time_have_connections_of_their_own(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(b"HTTP/1.1 200 OK\r\n", ANSWER[17:], pause=0.02)) as seen:
            client = Client(IdleConnections(most=2), environ={})
            assert await asyncio.gather(*(ask(client, seen.url) for _ in range(4))) == [b"ok"] * 4
            assert seen.opened == 4
            assert client.connections == 2  # as many as are kept
            await client.close()

    run(work())


def test_an_idle_connection_is_closed_in_time(run: Run) -> None:
    async def work() -> None:
        async with listening(answering(ANSWER)) as seen:
            client = Client(IdleConnections(seconds=0.05), environ={})
            await ask(client, seen.url)
            await seen.closed.wait()
            assert client.connections == 0
            assert await ask(client, seen.url) == b"ok"
            assert seen.opened == 2
            await client.close()

    run(work())


def test_a_connection_that_the_server_left_is_not_used_again(run: Run) -> None:
    """It answers, keeps the connection by its words, and closes it all the same."""

    async def work() -> None:
        async with listening(answering(ANSWER, then="close")) as seen:
            client = Client(environ={})
            for _ in range(3):
                assert await ask(client, seen.url) == b"ok"
                await until(lambda: client.connections == 0)
            assert (seen.opened, len(seen.requests)) == (3, 3)
            await client.close()

    run(work())


def test_a_goodbye_that_the_loop_has_not_seen_is_noticed_before_sending(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_TRUSTED", 0.0)
    server = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def serve() -> None:
        for _ in range(2):
            accepted.append(server.accept()[0])
            accepted[-1].recv(65536)
            accepted[-1].sendall(ANSWER)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    async def work() -> None:
        client = Client(environ={})
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        await ask(client, url)
        accepted[0].close()
        time.sleep(0.05)  # the loop is busy elsewhere while the goodbye arrives
        assert await ask(client, url) == b"ok"
        assert len(accepted) == 2
        await client.close()

    run(work())
    thread.join(30)
    server.close()


def test_a_request_that_may_have_been_seen_is_not_sent_again(run: Run) -> None:
    async def work() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader, writer)
            writer.write(ANSWER)
            await read_request(reader, writer)  # and closes instead of an answer

        async with listening(script) as seen:
            client = Client(environ={})
            await ask(client, seen.url)
            with pytest.raises(ReplyBroken):
                await ask(client, seen.url)
            assert (seen.opened, len(seen.requests), client.connections) == (1, 2, 0)
            await client.close()

    run(work())


def test_a_large_answer_does_not_leave_its_connection_paused(run: Run) -> None:
    """The piece that fills the reply up may also be its last one."""

    class Recorder:
        calls: list[str]
        deadline = 0.0

        def set_deadline(self, deadline: float) -> None:
            pass

        def __init__(self) -> None:
            self.calls = []
            self.loop = asyncio.get_running_loop()

        def pause(self) -> None:
            self.calls.append("pause")

        def resume(self) -> None:
            self.calls.append("resume")

        def cut(self) -> None:
            self.calls.append("cut")

    async def work() -> None:
        connection = Recorder()
        reply = HttpReply(connection, Timeouts())
        reply.on_head(200, b"HTTP/1.1 200 OK")
        reply.on_body(b"x" * (HIGH_WATER + 1))
        reply.on_end()
        assert connection.calls == ["pause", "resume"]
        assert len(await reply.read(1 << 24)) == HIGH_WATER + 1
        assert connection.calls[2:] == []

    run(work())


def test_large_answers_share_a_connection(run: Run) -> None:
    large = b"x" * (4 * HIGH_WATER)
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(large), large)

    async def work() -> None:
        async with listening(answering(answer)) as seen:
            client = Client(environ={})
            for _ in range(3):
                reply = await client.send("POST", seen.url, {}, b"{}", Timeouts(30, 30, 30))
                await asyncio.sleep(0.02)  # what arrives waits
                assert await reply.read(1 << 24) == large
            assert seen.opened == 1
            await client.close()

    run(work())


def test_who_gives_up_while_connecting_leaves_nothing_open(run: Run) -> None:
    """uvloop does not close a connection that comes about just as nobody waits for it any more."""

    async def work() -> None:
        async with listening(answering(ANSWER)) as seen:
            client = Client(environ={})
            for steps in [*range(12)] * 20:
                asking = asyncio.ensure_future(ask(client, seen.url))
                for _ in range(steps):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            await until(lambda: client.connections == sum(map(len, client._idle.values())))
            await client.close()

    run(work())
