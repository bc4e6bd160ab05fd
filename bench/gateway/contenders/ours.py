"""dragoman with its defaults: one worker, access log, metrics."""

import json
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from bench.gateway.contenders.base import Endpoint, Gateway, Start, default_endpoint
from bench.gateway.pairs import KINDS, UPSTREAMS, WHOLE, Kind, Pair
from bench.gateway.upstream import Upstream

AFTER_BASE = {"openai-chat": "/v1", "hermes": "/v1", "openai-responses": "/v1"}


def start(place: Path, port: int, upstream: Upstream) -> Start:
    conf = place / "dragoman.toml"
    conf.write_text("".join(provider(upstream, name, kind) for name in UPSTREAMS for kind in KINDS))
    return Start([sys.executable, "-m", "dragoman", "serve", "--config", str(conf), "--port", str(port)])


def provider(upstream: Upstream, name: str, kind: Kind) -> str:
    settings = {
        "protocol": "openai-chat" if name == "hermes" else name,
        "base_url": upstream.base(name, kind) + AFTER_BASE.get(name, ""),
        "api_key": "k",
    }
    if name == "hermes":
        settings["dialect"] = "hermes"
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    return f"[providers.{name}-{kind}]\n{lines}"


def endpoint(upstream: Upstream, pair: Pair, kind: Kind) -> Endpoint:
    usual = default_endpoint(pair, kind)
    model = f"{usual.model}:m"
    if pair.client != "gemini":
        return Endpoint(usual.path, model)
    method = "generateContent" if kind == WHOLE else "streamGenerateContent?alt=sse"
    return Endpoint(f"{usual.path}/{model}:{method}", model)


DRAGOMAN = Gateway("dragoman", lambda: version_of("dragoman"), start, endpoint)
