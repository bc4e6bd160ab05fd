"""How long one large request keeps others waiting: /healthz is requested every millisecond meanwhile."""

import socket
import statistics
import time
from threading import Event, Thread
from typing import NamedTuple

from bench.gateway.history import conversation, new_numbers, wires_of
from bench.gateway.measure import Running
from bench.gateway.pairs import Pair
from bench.gateway.requests import SECONDS, Connections, read_whole

ROUNDS = 290  # about 1 MB, 581 messages
PING = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
EVERY = 0.001


class Ping(NamedTuple):
    sent: float
    answered: float


class Pinger(Thread):
    def __init__(self, port: int) -> None:
        super().__init__()
        self.pings = list[Ping]()
        self._port, self._ended = port, Event()

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), timeout=SECONDS) as sock:
            while not self._ended.is_set():
                sent = time.perf_counter()
                sock.sendall(PING)
                read_whole(sock)
                self.pings.append(Ping(sent, time.perf_counter()))
                time.sleep(max(0.0, sent + EVERY - time.perf_counter()))

    def end(self) -> None:
        self._ended.set()
        self.join()

    def worst(self, since: float, until: float) -> float:
        """Milliseconds of the slowest reply that was awaited in this time."""
        return 1e3 * max(
            (ping.answered - ping.sent for ping in self.pings if ping.sent < until and ping.answered > since),
            default=0.0,
        )


def worst_ping(pair: Pair, times: int, one: Running) -> float:
    """While a conversation of 1 MB is translated that was never seen; the median of several."""
    wires = wires_of(one, pair, conversation(ROUNDS), new_numbers(times))
    pinger, windows = Pinger(one.port), list[tuple[float, float]]()
    with Connections(one.port, 1) as connections:
        pinger.start()
        try:
            for wire in wires:
                time.sleep(0.02)
                since = time.perf_counter()
                connections.exchange([wire])
                windows.append((since, time.perf_counter()))
        finally:
            pinger.end()
    return statistics.median(pinger.worst(*window) for window in windows)


def idle_ping(times: int, one: Running) -> float:
    """The same without a large request."""
    pinger = Pinger(one.port)
    pinger.start()
    windows = list[tuple[float, float]]()
    for _ in range(times):
        since = time.perf_counter()
        time.sleep(0.02)
        windows.append((since, time.perf_counter()))
    pinger.end()
    return statistics.median(pinger.worst(*window) for window in windows)
