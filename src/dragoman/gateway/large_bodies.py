"""Large bodies are worked on in threads, so that one of them does not stop the event loop.

A thread helps only as far as it lets go of the interpreter lock: Python code does every `_SWITCH` seconds, a
call into C when it returns. So a large body is decoded in steps, and the number of its values, which bounds
every single call, is limited: 60 MB of numbers take 20 seconds, and no request of an agent looks like that.

A value takes memory however short it is: 3 MB of `[],` are 80 MB of lists. So values are counted and held in
the memory budget before they are decoded. Every handler reads its body here.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from dragoman.core import jsontext
from dragoman.core.codec import Codec
from dragoman.core.errors import DragomanError
from dragoman.core.fields import Body, PartlyReadBody, read_body
from dragoman.core.jsontext import MOST_VALUES
from dragoman.core.model import Wire
from dragoman.http.memory_budget import BODY_WEIGHT
from dragoman.http.server import MemoryFull, ServerRequest, TooLarge

if TYPE_CHECKING:
    from dragoman.exchange import Exchange

P = ParamSpec("P")
Recall = Callable[[Codec, bytes], PartlyReadBody | None]
Look = Callable[[bytes], Body | None]
T = TypeVar("T")

LARGE = 256 * 1024  # bytes; below it, a body takes a few milliseconds
_VALUE_WEIGHT = 96  # bytes of an empty list or object, and of its place in another one
_STEP = 64 * 1024  # bytes that are decoded by one call
_COUNTED = 1024 * 1024
_SWITCH = 0.001
_FREED = 200  # messages that are freed by one call
_RELEASED = 0.1  # seconds, until nobody else holds a body
_THREADS = 2

_threads: ThreadPoolExecutor | None = None
_running = 0


class TooManyValues(TooLarge):
    """A body that would take too long, whatever its size."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        DragomanError.__init__(self, f"the body has more than {most} JSON values")


async def run_for(size: int, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Call `function`, in a thread where its body has more than LARGE bytes."""
    if size <= LARGE:
        return function(*args, **named)
    global _threads, _running
    if _threads is None:
        sys.setswitchinterval(_SWITCH)
        _threads = ThreadPoolExecutor(_THREADS, "large-body")
    _running += 1
    gc.disable()  # a collection among a million new objects holds the lock for 100 ms
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, lambda: function(*args, **named))
    finally:
        _running -= 1
        if not _running:
            # Objects that were made without collections are all in the youngest generation, and the
            # next collection of it would stop the loop for 200 ms. These calls move them to the
            # oldest one, without a look at them.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def translate(exchange: Exchange, body: Body, model: str, stream: bool) -> bytes:
    """The request for the upstream; what is no longer needed of its messages is freed in steps."""
    out = exchange.request_bytes(body, model, stream)
    for messages in exchange.take_messages():
        free(messages)
    return out


def free_later(body: Body, field: str) -> None:
    """Free the conversation in `field` of a body that is being released. To free a million objects takes 100
    ms, during which nothing else runs; so they are held until the body is gone, and then freed in steps."""
    turns = body.parsed.get(field) if body.parsed else None
    if _threads and jsontext.is_array(turns):
        asyncio.get_running_loop().call_later(_RELEASED, _free_in_thread, list(turns))


def _free_in_thread(items: list[Any]) -> None:
    if _threads:
        _threads.submit(free, items)


def free(items: list[Any]) -> None:
    """Free what only `items` holds, in steps, between which other threads run."""
    while items:
        del items[-_FREED:]


async def read(
    data: bytes,
    client: Codec,
    look: Look | None,
    recall: Recall | None,
    incoming: ServerRequest | None = None,
) -> Body:
    """A body of more than LARGE bytes. Raises WireError, TooManyValues or MemoryFull."""
    values, glanced = await run_for(len(data), _look_at, data, look)
    if glanced:
        return glanced
    if incoming:
        _hold(incoming, values, len(data))
    return await run_for(len(data), _read, data, client, recall)


def _look_at(data: bytes, look: Look | None) -> tuple[int, Body | None]:
    return count_values(data), look(data) if look else None


def _read(data: bytes, client: Codec, recall: Recall | None) -> Body:
    if recall and (outline := recall(client, data)):
        return Body(data, client.name, outline=outline)
    return Body(data, client.name, wire=decode_object(data, client.name))


async def read_wire(incoming: ServerRequest, data: bytes, protocol: str, most: int = MOST_VALUES) -> Wire:
    """The object of a body of any size. Raises WireError, TooManyValues or MemoryFull."""
    if len(data) <= LARGE:
        return read_body(data, protocol)
    _hold(incoming, await run_for(len(data), count_values, data, most), len(data))
    return await run_for(len(data), decode_object, data, protocol)


def count_values(data: bytes, most: int = MOST_VALUES) -> int:
    """Raises TooManyValues."""
    commas = 0
    for start in range(0, len(data), _COUNTED):
        commas += data.count(b",", start, start + _COUNTED)
    if commas > most:
        raise TooManyValues(most)
    return commas


def _hold(incoming: ServerRequest, values: int, size: int) -> None:
    """What the values take beyond what is counted for a body of this size. Raises MemoryFull."""
    hold(incoming, max(_VALUE_WEIGHT * values - BODY_WEIGHT * size, 0))


def hold(incoming: ServerRequest, size: int) -> None:
    """Count what a request will take in memory. Raises MemoryFull."""
    incoming.hold(size)
    if size and incoming.memory.used >= incoming.memory.limit:
        raise MemoryFull


def decode_object(data: bytes, protocol: str) -> Wire:
    """In steps; call it in a thread where it is large. Raises WireError."""
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # again, for an error that names the place
        return Body(data, protocol).wire
    return value if jsontext.is_object(value) else Body(data, protocol).wire


def _decode(data: bytes) -> Any:
    first = data[:64].lstrip()[:1]
    if len(data) > _STEP and first == b"{":
        return {name: _decode(bytes(value)) for name, value in jsontext.split_object(data).items()}
    if len(data) > _STEP and first == b"[":
        return [_decode(bytes(value)) for value in jsontext.split_array(data)]
    return jsontext.decode(data)
