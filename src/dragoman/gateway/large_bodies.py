"""Large bodies are worked on in threads, so that one of them does not stop the event loop.

A thread helps only as far as it lets go of the interpreter lock: Python code does every `_SWITCH` seconds, a
call into C when it returns. So a large body is decoded in steps, and the number of its values, which bounds
every single call, is limited: 60 MB of numbers take 20 seconds, and no request of an agent looks like that.
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
from dragoman.core.fields import Body, PartlyReadBody
from dragoman.core.model import Wire
from dragoman.http.server import TooLarge

if TYPE_CHECKING:
    from dragoman.exchange import Exchange

P = ParamSpec("P")
Recall = Callable[[Codec, bytes], PartlyReadBody | None]
Look = Callable[[bytes], Wire | None]
T = TypeVar("T")

LARGE = 256 * 1024  # bytes; below it, a body takes a few milliseconds
MOST_VALUES = 1_000_000  # commas; text has them too, but a million are more than any context window takes
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

    def __init__(self) -> None:
        DragomanError.__init__(self, f"the body has more than {MOST_VALUES} JSON values")


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


async def read(data: bytes, client: Codec, look: Look | None, recall: Recall | None) -> Body:
    """A body of more than LARGE bytes. Raises WireError or TooManyValues."""
    return await run_for(len(data), _read, data, client, look, recall)


def _read(data: bytes, client: Codec, look: Look | None, recall: Recall | None) -> Body:
    commas = 0
    for start in range(0, len(data), _COUNTED):
        commas += data.count(b",", start, start + _COUNTED)
    if commas > MOST_VALUES:
        raise TooManyValues
    if look:
        return Body(data, client.name, look(data))
    if recall and (outline := recall(client, data)):
        return Body(data, client.name, outline=outline)
    return Body(data, client.name, wire=decode_object(data, client.name))


def decode_object(data: bytes, protocol: str) -> Wire:
    """In steps; call it in a thread. Raises WireError."""
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
