"""nginx as a proxy that parses no body: the limit."""

import shutil
import subprocess
from pathlib import Path

from bench.gateway.contenders.base import Endpoint, Gateway, Missing, Start
from bench.gateway.pairs import PATHS, Kind, Pair
from bench.gateway.upstream import EXTENSIONS, Upstream, nginx

PROXY = """
  upstream fast {{ server 127.0.0.1:{fast}; keepalive 256; keepalive_requests 1000000000; }}
  upstream slow {{ server 127.0.0.1:{slow}; keepalive 1024; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    location /fast/ {{ proxy_pass http://fast/; }}
    location /slow/ {{ proxy_pass http://slow/; }}
  }}"""


def version() -> str:
    if not shutil.which("nginx"):
        raise Missing("nginx is not installed (Debian: nginx-light)")
    output = subprocess.run(["nginx", "-v"], capture_output=True, text=True).stderr
    return output.strip().rpartition("/")[2]


def start(place: Path, port: int, upstream: Upstream) -> Start:
    inside = PROXY.format(fast=upstream.fast, slow=upstream.slow, port=port)
    return Start(nginx(place, "proxy", inside))


def endpoint(upstream: Upstream, pair: Pair, kind: Kind) -> Endpoint | None:
    if pair.translates:
        return None
    pace = "fast" if kind in EXTENSIONS else "slow"
    return Endpoint(f"/{pace}/{pair.upstream}/{kind}{PATHS[pair.client]}", "m")


NGINX = Gateway("nginx", version, start, endpoint)
