"""TensorZero: the HTTP gateway that its PyPI package starts within a process, with observability off.

Its container image and its binary are not on a package index; this is the same Rust server. It listens on
a port of its own choice. As a script, this module is that process.
"""

import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from bench.gateway.contenders.base import Endpoint, Gateway, Missing, Start
from bench.gateway.pairs import KINDS, UPSTREAMS, Kind, Pair
from bench.gateway.upstream import Upstream

ITS_TYPE = {"openai-chat": "openai", "anthropic": "anthropic"}  # its Gemini provider takes no address
AFTER_BASE = {"openai-chat": "/v1/", "anthropic": "/v1/messages"}


def version() -> str:
    try:
        return version_of("tensorzero")
    except PackageNotFoundError as error:
        raise Missing("tensorzero is not installed (PyPI)") from error


def start(place: Path, port: int, upstream: Upstream) -> Start:
    conf, port_file = place / "tensorzero.toml", place / "tensorzero.port"
    models = [model(upstream, name, kind) for name in UPSTREAMS if name in ITS_TYPE for kind in KINDS]
    conf.write_text("\n".join(["[gateway]", "observability.enabled = false", *models]))
    port_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bench.gateway.contenders.tensorzero", str(conf), str(port_file)]
    return Start(command, {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, port_file)


def model(upstream: Upstream, name: str, kind: Kind) -> str:
    title = f'[models."{name}-{kind}"'
    return f"""
{title}]
routing = ["mock"]
{title}.providers.mock]
type = "{ITS_TYPE[name]}"
model_name = "m"
api_base = "{upstream.base(name, kind)}{AFTER_BASE[name]}"
"""


def endpoint(upstream: Upstream, pair: Pair, kind: Kind) -> Endpoint | None:
    if pair.client != "openai-chat" or pair.upstream not in ITS_TYPE:
        return None
    return Endpoint("/openai/v1/chat/completions", f"tensorzero::model_name::{pair.upstream}-{kind}")


def main(conf: str, port_file: str) -> None:
    gateway = import_module("tensorzero")._start_http_gateway(
        config_file=conf, clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
    )
    Path(port_file).write_text(gateway.base_url.split(":")[2].split("/")[0])
    while True:
        time.sleep(3600)


TENSORZERO = Gateway("TensorZero", version, start, endpoint)

if __name__ == "__main__":
    main(*sys.argv[1:])
