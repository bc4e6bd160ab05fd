"""Portkey's gateway on Node: the client says in headers which provider is meant and where it is."""

import json
import shutil
import sys
from pathlib import Path

from bench.gateway.contenders.base import Endpoint, Gateway, Missing, Start
from bench.gateway.pairs import PATHS, Kind, Pair
from bench.gateway.upstream import Upstream

PACKAGE = Path(sys.prefix) / "npm/node_modules/@portkey-ai/gateway"
ITS_NAME = {"openai-chat": "openai", "anthropic": "anthropic", "gemini": "google"}
AFTER_BASE = {"openai-chat": "/v1", "anthropic": "/v1", "gemini": ""}


def version() -> str:
    if not shutil.which("node"):
        raise Missing("Node is not installed")
    if not PACKAGE.exists():
        raise Missing("@portkey-ai/gateway is not installed (npm)")
    return str(json.loads((PACKAGE / "package.json").read_text())["version"])


def start(place: Path, port: int, upstream: Upstream) -> Start:
    command = ["node", str(PACKAGE / "build/start-server.js"), f"--port={port}", "--headless"]
    return Start(command, {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1", "NODE_ENV": "production"})


def endpoint(upstream: Upstream, pair: Pair, kind: Kind) -> Endpoint | None:
    if pair.upstream not in ITS_NAME or (pair.translates and pair.client != "openai-chat"):
        return None
    host = upstream.base(pair.upstream, kind) + AFTER_BASE[pair.upstream]
    headers = {"x-portkey-provider": ITS_NAME[pair.upstream], "x-portkey-custom-host": host}
    return Endpoint(PATHS[pair.client], "m", headers)


PORTKEY = Gateway("Portkey", version, start, endpoint)
