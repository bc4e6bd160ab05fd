"""LiteLLM's proxy: one worker, no database, no keys, no callbacks, its log at errors only."""

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.gateway.contenders.base import Endpoint, Gateway, Missing, Start, default_endpoint
from bench.gateway.pairs import KINDS, UPSTREAMS, Kind, Pair
from bench.gateway.upstream import Upstream

ITS_PREFIX = {"openai-chat": "openai", "anthropic": "anthropic", "gemini": "gemini"}
AFTER_BASE = {"openai-chat": "/v1", "anthropic": "", "gemini": "/v1beta"}
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or it asks the network while it starts
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "DISABLE_ADMIN_UI": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}

SETTINGS: dict[str, Any] = {
    "litellm_settings": {
        "telemetry": False,
        "callbacks": [],
        "use_chat_completions_url_for_anthropic_messages": True,  # else it speaks Responses to the upstream
    },
    "router_settings": {"num_retries": 0, "disable_cooldowns": True},
}


def version() -> str:
    try:
        found = version_of("litellm")
    except PackageNotFoundError as error:
        raise Missing("litellm is not installed (PyPI: litellm[proxy])") from error
    if find_spec("fastapi") is None:
        raise Missing("its proxy is not installed (PyPI: litellm[proxy])")
    return found


def start(place: Path, port: int, upstream: Upstream) -> Start:
    conf = place / "litellm.yaml"  # JSON is YAML
    models = [model(upstream, name, kind) for name in UPSTREAMS if name in ITS_PREFIX for kind in KINDS]
    conf.write_text(json.dumps({"model_list": models, **SETTINGS}))
    program = shutil.which("litellm", path=str(Path(sys.executable).parent)) or "litellm"
    command = [program, "--config", str(conf), "--host", "127.0.0.1", "--port", str(port)]
    return Start([*command, "--num_workers", "1"], QUIET)


def model(upstream: Upstream, name: str, kind: Kind) -> dict[str, Any]:
    base = upstream.base(name, kind) + AFTER_BASE[name]
    settings = {"model": f"{ITS_PREFIX[name]}/m", "api_base": base, "api_key": "k"}
    return {"model_name": f"{name}-{kind}", "litellm_params": settings}


def endpoint(upstream: Upstream, pair: Pair, kind: Kind) -> Endpoint | None:
    return default_endpoint(pair, kind) if pair.upstream in ITS_PREFIX else None


LITELLM = Gateway("LiteLLM", version, start, endpoint, start_timeout=90)
