"""Real agents and SDKs through the gateway, over an upstream of every protocol: `make test-agents`.

The drivers and the mock model live outside this repository (../shared/clients); where they are absent there
is nothing to run. Each driver installs its agent once, runs it in a clean home, and is content only if the
whole cycle worked: prompt, tool call, real execution, result, answer.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from upstreams import UPSTREAMS, gateway, mock

ROOT = Path(__file__).parents[2]
EVERY = ("chat", "responses", "anthropic", "gemini")
DRIVERS = {
    "py_sdks": EVERY,
    "openai_agents": ("chat", "responses"),
    "claude_agent_sdk": ("anthropic",),
    "claude_code": ("anthropic",),
    "codex": ("responses",),
    "gemini_cli": ("gemini",),
    "opencode": EVERY,
    "qwen_code": EVERY,
}


@dataclass(frozen=True)
class Run:
    driver: str
    speaks: str
    upstream: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.driver}-{self.speaks}-{self.upstream}-{self.scenario}"


def main() -> int:
    options = arguments()
    clients = Path(options.clients)
    if not (clients / "drivers").is_dir():
        print(f"agents: {clients}/drivers is absent, nothing to run")
        return 0
    runs = [
        Run(driver, speaks, upstream, scenario)
        for driver in options.driver
        for speaks, upstream, scenario in itertools.product(
            DRIVERS[driver], options.upstream, options.scenario
        )
        if speaks in (options.speaks or EVERY)
    ]
    logs = Path(options.logs)
    logs.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory() as scratch,
        mock(clients, logs) as behind,
        gateway(behind, Path(scratch), logs) as url,
    ):
        for driver in options.driver:  # one after the other: installing is not for several at once
            attempt(clients, url, Run(driver, DRIVERS[driver][0], "anthropic", "text"), logs)
        with ThreadPoolExecutor(options.jobs) as pool:
            results = dict(
                zip(runs, pool.map(lambda run: attempt(clients, url, run, logs), runs), strict=True)
            )
    return report(results, options.scenario, logs)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real agents through the gateway.")
    parser.add_argument("--clients", default=str(ROOT.parent / "shared" / "clients"))
    parser.add_argument("--driver", nargs="*", choices=DRIVERS, default=list(DRIVERS))
    parser.add_argument("--speaks", nargs="*", choices=EVERY)
    parser.add_argument("--upstream", nargs="*", choices=UPSTREAMS, default=list(UPSTREAMS))
    parser.add_argument("--scenario", nargs="*", default=["tool", "parallel", "twostep", "think"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--logs", default=str(ROOT / "build" / "agents"))
    return parser.parse_args()


def attempt(clients: Path, url: str, run: Run, logs: Path) -> str:
    """ "" where the driver is content, else where to read why not."""
    settings = {
        "BASE_URL": url,
        "MODEL": UPSTREAMS[run.upstream].model,
        "PROTO": run.speaks,
        "SCENARIO": run.scenario,
        "TIMEOUT": "120",
    }
    began = time.monotonic()
    done = subprocess.run(
        [str(clients / "drivers" / f"{run.driver}.sh")],
        env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    log = logs / f"{run}.log"
    log.write_bytes(done.stdout)
    mark = "ok  " if done.returncode == 0 else "FAIL"
    print(f"{mark} {run} ({time.monotonic() - began:.1f} s)", file=sys.stderr, flush=True)
    return "" if done.returncode == 0 else str(log)


def report(results: dict[Run, str], scenarios: list[str], logs: Path) -> int:
    """One line for each agent and protocol, one column for each upstream; what failed is named."""
    upstreams = list(dict.fromkeys(run.upstream for run in results))
    rows = list(dict.fromkeys((run.driver, run.speaks) for run in results))
    print(f"\n{'agent':18} {'speaks':10} " + " ".join(f"{name:17}" for name in upstreams))
    for driver, speaks in rows:
        cells = [cell(results, driver, speaks, upstream, scenarios) for upstream in upstreams]
        print(f"{driver:18} {speaks:10} " + " ".join(f"{text:17}" for text in cells))
    failed = [log for log in results.values() if log]
    print(f"\n{len(results) - len(failed)} of {len(results)} cycles worked; logs in {logs}")
    return 1 if failed else 0


def cell(results: dict[Run, str], driver: str, speaks: str, upstream: str, scenarios: list[str]) -> str:
    failed = [name for name in scenarios if results[Run(driver, speaks, upstream, name)]]
    return f"no: {','.join(failed)}" if failed else f"{len(scenarios)}/{len(scenarios)}"


if __name__ == "__main__":
    sys.exit(main())
