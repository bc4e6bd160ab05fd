"""Real agents and SDKs through the gateway, over an upstream of every protocol: `make test-agents`.

The drivers and the mock model live outside this repository (../shared/clients); where they are absent there
is nothing to run. Each driver installs its agent once, runs it in a clean home, and is content only if the
whole cycle worked: prompt, tool call, real execution, result, answer.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from upstreams import UPSTREAMS, gateways

ROOT = Path(__file__).parents[2]
MODELS = {
    "chat": "gpt-4.1",
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
}
EVERY = tuple(MODELS)


@dataclass(frozen=True)
class Driver:
    script: str
    speaks: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    scenarios: tuple[str, ...] = ()  # instead of the ones asked for


DEFERRED = "Run the check command and tell me the result. [[scenario:toolsearch]] [[load:mcp__srv__bash]]"
DRIVERS = {
    "py_sdks": Driver("py_sdks", EVERY),
    "openai_agents": Driver("openai_agents", ("chat", "responses")),
    "claude_code": Driver("claude_code", ("anthropic",)),
    "claude_code+probes": Driver("claude_code", ("anthropic",), {"AUX": "1"}),
    "claude_sdk": Driver("claude_agent_sdk", ("anthropic",)),
    "claude_sdk+mcp": Driver("claude_agent_sdk", ("anthropic",), {"MCP": "1", "TOOL_SEARCH": "false"}),
    "claude_sdk+deferred": Driver(
        "claude_agent_sdk",
        ("anthropic",),
        {"MCP": "1", "TOOL_SEARCH": "true", "PROMPT": DEFERRED},
        ("toolsearch",),
    ),
    "codex": Driver("codex", ("responses",)),
    "codex+websocket": Driver("codex", ("responses",), {"WS": "1"}),
    "codex gpt-5.5": Driver("codex", ("responses",), {"MODEL": "gpt-5.5"}),
    "codex gpt-5.6": Driver("codex", ("responses",), {"MODEL": "gpt-5.6"}),
    "gemini_cli": Driver("gemini_cli", ("gemini",)),
    "gemini_cli auto": Driver("gemini_cli", ("gemini",), {"MODEL": "auto"}),
    "opencode": Driver("opencode", EVERY),
    "qwen_code": Driver("qwen_code", EVERY),
}


@dataclass(frozen=True)
class Run:
    driver: str
    speaks: str
    upstream: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.driver}-{self.speaks}-{self.upstream}-{self.scenario}".replace(" ", "+")


def main() -> int:
    options = arguments()
    clients, logs = Path(options.clients), Path(options.logs)
    if not (clients / "drivers").is_dir():
        print(f"agents: {clients}/drivers is absent, nothing to run")
        return 0
    logs.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    runs = [
        Run(name, speaks, upstream, scenario)
        for name in options.driver
        for speaks in DRIVERS[name].speaks
        for upstream in options.upstream
        for scenario in DRIVERS[name].scenarios or options.scenario
        if speaks in options.speaks
    ]
    drivers, timeout = clients / "drivers", str(options.timeout)
    with gateways(options.upstream, clients, logs) as urls:
        pool = ThreadPoolExecutor(options.jobs)
        try:
            waiting = [pool.submit(attempt, drivers, urls[run.upstream], run, logs, timeout) for run in runs]
            results = {run: future.result() for run, future in zip(runs, waiting, strict=True)}
        finally:
            pool.shutdown(cancel_futures=True)  # no further runs start once it is stopped
    return report(results, logs)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real agents through the gateway.")
    parser.add_argument("--clients", default=str(ROOT.parent / "shared" / "clients"))
    parser.add_argument("--driver", nargs="*", choices=DRIVERS, default=list(DRIVERS))
    parser.add_argument("--speaks", nargs="*", choices=EVERY, default=EVERY)
    parser.add_argument("--upstream", nargs="*", choices=UPSTREAMS, default=list(UPSTREAMS))
    parser.add_argument("--scenario", nargs="*", default=["tool", "parallel", "twostep", "think"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--timeout", type=int, default=90, help="seconds for one cycle; busy machines want more"
    )
    parser.add_argument("--logs", default=str(ROOT / "build" / "agents"))
    return parser.parse_args()


def attempt(drivers: Path, url: str, run: Run, logs: Path, timeout: str) -> bool:
    """Whether the driver is content; what it printed is in its log."""
    driver = DRIVERS[run.driver]
    base = {"MODEL": MODELS[run.speaks], **driver.settings}
    settings = {
        **base,
        "TIMEOUT": timeout,
        "BASE_URL": url,
        "PROTO": run.speaks,
        "SCENARIO": run.scenario,
    }
    began = time.monotonic()
    with (logs / f"{run}.log").open("wb") as log:
        done = subprocess.run(
            [str(drivers / f"{driver.script}.sh")],
            env={**os.environ, **settings}, stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    mark = "ok  " if done.returncode == 0 else "FAIL"
    print(f"{mark} {run} ({time.monotonic() - began:.1f} s)", file=sys.stderr, flush=True)
    return done.returncode == 0


def report(results: dict[Run, bool], logs: Path) -> int:
    """One line for each agent and protocol, one column for each upstream; what failed is named."""
    cells: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for run, good in results.items():
        cells[run.driver, run.speaks][run.upstream] += [] if good else [run.scenario]
    upstreams = list(dict.fromkeys(run.upstream for run in results))
    print(f"\n{'agent':20} {'speaks':10} " + " ".join(f"{name:16}" for name in upstreams))
    for (driver, speaks), row in cells.items():
        failed = [",".join(row[name]) for name in upstreams]
        print(
            f"{driver:20} {speaks:10} " + " ".join(f"{'no: ' + text if text else 'ok':16}" for text in failed)
        )
    print(f"\n{sum(results.values())} of {len(results)} cycles worked; logs in {logs}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
