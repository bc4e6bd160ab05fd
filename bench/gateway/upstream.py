"""The upstream of all gateways: nginx with replies from files, and a slow one of our own.

nginx answers a POST from a file by turning its 405 into the file; `mirror` makes it read the whole request
first. It cannot see `stream` in a body, so each kind of reply has an address of its own.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.bodies import frames, whole
from bench.gateway.pairs import STREAM, UPSTREAMS, WHOLE, Kind
from bench.gateway.processes import free_port, running, wait_for

EXTENSIONS: dict[Kind, str] = {WHOLE: "json", STREAM: "sse"}
NGINX = """
daemon off; worker_processes 1; pid {place}/{name}.pid; error_log {place}/{name}.log; {user}
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600; sendfile on; tcp_nodelay on;
  client_body_buffer_size 1m; client_max_body_size 10m; open_file_cache max=100 inactive=1h;
  types {{ application/json json; text/event-stream sse; }}
  client_body_temp_path {place}/{name}.1; proxy_temp_path {place}/{name}.2;
  fastcgi_temp_path {place}/{name}.3; uwsgi_temp_path {place}/{name}.4; scgi_temp_path {place}/{name}.5;
  {inside}
}}
"""
STATIC = (
    "location /{upstream}/{kind}/ {{ mirror /read; error_page 405 =200 {file}; try_files /none {file}; }}"
)


@dataclass(frozen=True, slots=True)
class Upstream:
    fast: int
    slow: int

    def base(self, upstream: str, kind: Kind) -> str:
        """The base URL of this kind of reply, without the version that some SDKs want after it."""
        return f"http://127.0.0.1:{self.port(kind)}/{upstream}/{kind}"

    def port(self, kind: Kind) -> int:
        return self.fast if kind in EXTENSIONS else self.slow


@contextmanager
def serving(place: Path) -> Generator[Upstream]:
    upstream = Upstream(free_port(), free_port())
    for name in UPSTREAMS:
        (place / f"{name}.json").write_bytes(whole(name))
        (place / f"{name}.sse").write_bytes(b"".join(frames(name)))
    slow = [sys.executable, "-m", "bench.gateway.slow", str(upstream.slow)]
    with (
        running(nginx(place, "upstream", static(place, upstream.fast)), place / "upstream.out"),
        running(slow, place / "slow.out"),
    ):
        for port in (upstream.fast, upstream.slow):
            wait_for(port)
        yield upstream


def nginx(place: Path, name: str, inside: str) -> list[str]:
    """The command of an nginx whose `http` block holds `inside`."""
    user = "user root;" if place.owner() == "root" else ""
    conf = place / f"{name}.conf"
    conf.write_text(NGINX.format(place=place, name=name, user=user, inside=inside))
    return ["nginx", "-c", str(conf)]


def static(place: Path, port: int) -> str:
    places = [
        STATIC.format(upstream=name, kind=kind, file=f"/{name}.{extension}")
        for name in UPSTREAMS
        for kind, extension in EXTENSIONS.items()
    ]
    plain = [
        f"location = /{name}.{extension} {{ error_page 405 =200 $uri; }}"
        for name in UPSTREAMS
        for extension in EXTENSIONS.values()
    ]
    lines = "\n    ".join([*places, *plain, "location = /read { return 204; }"])
    return f"server {{ listen 127.0.0.1:{port} backlog=4096; root {place};\n    {lines}\n  }}"
