"""Runs the gateway: one process or several on one port, with a graceful shutdown.

The socket is bound here, before anything else is started: a port in use is an error in one line, and several
workers share one queue of connections.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Thread

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import ConfigError, DragomanError
from dragoman.gateway.admission.host_counters import counting_file
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config, is_loopback
from dragoman.gateway.config.start import server_tls
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.descriptors import raise_limit
from dragoman.gateway.process.handover import Handover, inherit_socket, report_ready
from dragoman.gateway.process.reload import ConfigReloader, Load
from dragoman.gateway.process.signals import release_signals
from dragoman.gateway.process.workers import Work, Workers
from dragoman.http.server import HttpServer, ServerLimits
from dragoman.http.server import run as run_server
from dragoman.recording.recorder import Recorder

_BACKLOG = 2048
_UNSENT = 128 * 1024  # bytes
_DRAIN = 0.5  # seconds, see ServerLimits
_GC_THRESHOLDS = (20_000, 20, 20)  # exchanges leave few cycles, and a collection takes time


Extension = Callable[[Gateway], object]  # adds routes to a gateway before it starts
# malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_BLOCK = 1024 * 1024  # bytes
_RETAINED = 16 * _BLOCK


def bind(config: Config) -> socket.socket:
    """A socket that already listens: clients that connect now wait until a worker accepts them. The one that
    systemd or a predecessor passed to this process, where there is one."""
    if listener := inherit_socket():
        _refuse_public(config, listener)
        _limit_unsent(listener)
        return listener
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        problem = f"cannot listen on {config.host}:{config.port}: {_reason(error)}"
        if error.errno == errno.EADDRINUSE:
            port = config.port % 65535 + 1
            problem += f". Choose another port: --port {port}, or in a clone: make run PORT={port}"
        raise ConfigError(problem) from None
    _limit_unsent(listener)
    return listener


def _refuse_public(config: Config, listener: socket.socket) -> None:
    """An inherited socket listens where it was bound, whatever `server.host` says. Who may connect to one of
    AF_UNIX is decided by the permissions of its path."""
    if config.keys or listener.family not in (socket.AF_INET, socket.AF_INET6):
        return
    if not is_loopback(address := listener.getsockname()[0]):
        listener.close()
        raise ConfigError(
            f"Refusing to listen on {address}, the address of the inherited socket, without client keys. "
            "Set server.keys."
        )


def _limit_unsent(listener: socket.socket) -> None:
    """Of a response that its client does not read, the kernel takes this much and not the megabytes that a
    socket may grow to. Accepted connections inherit it; what is on its way to a client is not counted."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT") and listener.family != getattr(socket, "AF_UNIX", None):
        with suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)


def url(config: Config, listener: socket.socket) -> str:
    """Where a client on this machine finds the gateway."""
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    host = f"[{config.host}]" if ":" in config.host else config.host
    scheme = "https" if config.tls_cert else "http"
    return f"{scheme}://{anywhere.get(config.host, host)}:{listener.getsockname()[1]}"


def run(
    config: Config,
    listener: socket.socket,
    workers: int = 1,
    extend: Extension | None = None,
    load: Load | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then accept nothing new and let requests under way end. `load` reads the
    configuration again."""
    if workers > 1 and sys.platform == "win32":
        raise ConfigError("Windows cannot share a listening socket between workers: use one")
    raise_limit()  # workers inherit it
    if workers == 1:

        def started() -> None:
            release_signals()
            report_ready()

        serve(config, listener, started, extend, load)
        return
    with ExitStack() as files:

        def work_for(config: Config) -> Work:
            """A new configuration has other keys, and a new file that counts their use."""
            files.close()
            file = files.enter_context(counting_file(len(config.keys), workers))
            config = replace(config, workers=workers, counting_file=file)
            return partial(serve, config, listener, extend=extend)

        note = partial(AccessLog.of(config).note, "process")
        reloader = ConfigReloader(config, load or (lambda: config), note)
        Workers(work_for, reloader, workers, listener, note).run()


def serve(
    config: Config,
    listener: socket.socket,
    started: Callable[[], object] = bool,
    extend: Extension | None = None,
    load: Load | None = None,
) -> None:
    """In this process. What exists at the start stays, so the garbage collector never scans it again.

    Without `load`, this is a worker: its parent handles the signals.
    """
    return_freed_memory()
    gateway = Gateway(config)
    if extend:
        extend(gateway)
    tls = server_tls(config)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    limits = ServerLimits(drain=_DRAIN, connections_per_address=config.connections_per_address)
    server = HttpServer(gateway, config.grace, limits, gateway.memory, tls)
    server.on_started = started
    gateway.is_draining = lambda: server.lame
    handlers: dict[int, Callable[[], object]] = {}
    if load and sys.platform != "win32":
        note = partial(gateway.access_log.note, "process")
        reloader = ConfigReloader(config, load, note)
        gateway.background.append(partial(reloader.watch, partial(_apply, gateway, tls)))
        handlers = {
            signal.SIGHUP: lambda: server.end() if reloader.hung_up else reloader.request(),
            signal.SIGUSR2: Handover(listener, server.end, note).begin,
        }
    run_server(server, listener, signal.SIGTERM, signal.SIGINT, handlers=handlers, lame_duck=config.drain)


def _apply(gateway: Gateway, tls: ssl.SSLContext | None, config: Config) -> None:
    gateway.configure(config)
    if tls:  # new connections get the new certificate
        try:
            tls.load_cert_chain(config.tls_cert, config.tls_key)
        except (OSError, ssl.SSLError) as error:
            gateway.access_log.note("process", f"the certificate was not reloaded: {_reason(error)}")


class PrivateGateway(Struct, frozen=True):
    """A gateway for one program: on a free port of this machine, behind a random key."""

    url: str
    key: str


@contextmanager
def private_gateway(
    config: Config,
    access_log: AccessLog,
    recorder: Recorder | None = None,
    extend: Extension | None = None,
) -> Generator[PrivateGateway]:
    """Serves as long as the block runs, with a store in memory: nothing is left behind."""
    keys = (secrets.token_urlsafe(24),)
    config = replace(config, host="127.0.0.1", port=0, keys=keys, admin_keys=keys, grace=1)
    config = replace(config, store_url="memory:")
    listener = bind(config)
    served = Gateway(config, access_log, recorder=recorder)
    if extend:
        extend(served)
    http_server = HttpServer(served, config.grace, memory=served.memory)
    thread = Thread(target=run_server, args=(http_server, listener), name="gateway", daemon=True)
    gateway = PrivateGateway(url(config, listener), config.keys[0])
    thread.start()
    try:
        while not http_server.started:
            if not thread.is_alive():
                raise DragomanError("the private gateway did not start")
            time.sleep(0.01)
        yield gateway
    finally:
        http_server.end_soon()
        thread.join(5)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def return_freed_memory() -> None:
    """Make glibc return large blocks to the system as soon as they are freed.

    By default it raises its limit with each large block that is freed, up to 32 MiB, and keeps later blocks
    below the limit in its heap: after a few bodies of 20 MB a process stays at several times its size. To set
    the limit fixes it (mallopt(3)). Other C libraries have no such function, and no such habit.

    Smaller blocks stay in the heap, of which up to `_RETAINED` free bytes are kept: else the buffers of each
    request of 150 kB are returned and cost some 50 page faults when the next one arrives.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _BLOCK)
            mallopt(_M_TRIM_THRESHOLD, _RETAINED)
            mallopt(_M_TOP_PAD, _BLOCK)
