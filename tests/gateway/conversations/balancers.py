"""Balancers in front of several gateways: nginx where it is installed, and one of our own."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from gateway.conversations.servers import free_port
from waiting import LONG, wait_until

_NGINX = """daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream gateways {{ {servers} }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://gateways; proxy_buffering off; }} }}
}}"""


@contextlib.contextmanager
def nginx(gateways: list[str], folder: Path) -> Iterator[str]:
    """As the documentation shows it: no sticky sessions, whoever cannot be reached is passed over."""
    port = free_port()
    servers = "".join(f"server {url.removeprefix('http://')};" for url in gateways)
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, port=port, servers=servers))
    program = [shutil.which("nginx") or "nginx", "-c", str(config), "-e", str(folder / "error.log")]
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(LONG)


@contextlib.contextmanager
def own(gateways: list[str], folder: Path) -> Iterator[str]:
    """Each connection to the next gateway that takes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    order = itertools.cycle([_address(url) for url in gateways])
    pairs: list[tuple[socket.socket, socket.socket]] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                for _ in gateways:
                    with contextlib.suppress(OSError):
                        behind = socket.create_connection(next(order), 5)
                        pairs.append((client, behind))
                        for one, other in ((client, behind), (behind, client)):
                            threading.Thread(target=_carry, args=(one, other), daemon=True).start()
                        break

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        for pair in pairs:
            for end in pair:
                end.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
