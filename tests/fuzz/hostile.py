"""An upstream that answers nonsense of every kind, and good requests of clients who have to live with it."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from threading import Event, Thread

from dragoman.protocols import names, upstream_names
from fuzz import samples
from fuzz.mutations import cut, mixed, printed, spoiled
from fuzz.parsers import errors, of_frames
from fuzz.routes import Sent
from soak.plans import Plan
from spoken import AT_CLOUDS

STATUSES = (*[200] * 24, 201, 204, 302, 400, 401, 404, 413, 429, 500, 503, 529, 999)
TYPES = (b"application/json", b"text/event-stream", b"text/html", b"\xff", b"")
HEADERS = (
    b"retry-after: x", b"retry-after: -1", b"retry-after: 1e9", b"retry-after-ms: \xb2", b"location: \xff",
    b"content-encoding: gzip", b"content-encoding: br", b"transfer-encoding: chunked", b"connection: upgrade",
)  # fmt: skip


def configuration(url: str) -> str:
    rows = ['[store]\nurl = "memory:"\n']
    for name in upstream_names():
        version = "/v1" if "chat" in name or name.startswith("openai") else ""
        rows.append(f'[providers.{name}]\nprotocol = "{name}"\nbase_url = "{url}{version}"\napi_key = "k"\n')
        rows.append("timeouts = { connect = 5, first_byte = 1, idle = 1 }\n")
    return "".join(rows)


def requests(random: Random) -> Iterator[Sent]:
    """Good ones, of every client to every upstream."""
    number = 0
    while True:
        number += 1
        client, provider = random.choice(names()), random.choice(upstream_names())
        plan = Plan(
            number=number, client=client, provider="chat", stream=bool(random.randrange(2)), calls=True
        )
        path = plan.path.replace("chat%3Agpt", f"{provider}%3Agpt").encode()
        body = plan.body.replace(b'"chat:', b'"%b:' % provider.encode())
        head = b"POST %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (
            path,
            len(body),
        )
        # a cloud's own parts go back as they came, broken ones too
        own = AT_CLOUDS.get(provider, provider)
        yield Sent(head + body, client, forwarded=client == own)


NUMBER = re.compile(rb"Number (\d+):")  # in the prompt of each plan
PATHS = {
    b"chat/completions": "openai-chat",
    b"/responses": "openai-responses",
    b"/messages": "anthropic",
    b"/converse": "bedrock-converse",
}


def answer_to(head: bytes, random: Random) -> bytes:
    """What the upstream answers to the head of a request: its protocol's words mostly, and bad ones."""
    protocol = next((name for path, name in PATHS.items() if path in head), "gemini")
    if not random.randrange(8):
        protocol = random.choice(upstream_names())
    replies, errs, donors = samples.replies(protocol), errors(protocol), samples.donors(protocol)
    match random.randrange(8):
        case 0:
            return _http(random, printed(mixed(random, random.choice(errs), donors)))
        case 1:
            return _http(random, spoiled(random, printed(random.choice([*errs, *replies]))))
        case 2 | 3:
            return _http(random, printed(mixed(random, random.choice(replies), donors)))
        case _:
            return _http(random, next(_streams(protocol)(random)))


_streams = cache(of_frames)


def _http(random: Random, body: bytes) -> bytes:
    head = [b"HTTP/1.1 %d X" % random.choice(STATUSES), b"content-type: " + random.choice(TYPES)]
    if not random.randrange(4):
        head.append(random.choice(HEADERS))
    length = random.choice((len(body), len(body), len(body) + 9, max(len(body) - 9, 0)))
    head += [b"content-length: %d" % length] if random.randrange(3) else []
    data = b"\r\n".join([*head, b"", b""]) + body
    return data if random.randrange(6) else spoiled(random, data)


@contextmanager
def hostile(seed: int) -> Iterator[str]:
    """Its address. Each connection gets one answer, in pieces, and is closed.

    An answer depends on the request and on how often it came, not on when it came among the others.
    """
    tries = Counter[bytes]()
    started, ports = Event(), list[int]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(
                int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
            )
            found = NUMBER.search(body)
            number = found[1] if found else b""
            tries[number] += 1
            random = Random(f"{seed} {number.decode()} {tries[number]}")
            for piece in cut(random, answer_to(head, random)):
                writer.write(piece)
                await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        await ended.wait()
        server.close()

    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    thread = Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(10), "the upstream did not start"
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)
        loop.close()
