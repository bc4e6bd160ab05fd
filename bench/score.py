"""`make score`: how many tests of three suites each gateway passes, and how many packages it installs.

Every gateway translates for the same upstream: the demo model, which speaks OpenAI Chat on loopback. Clients
speak the four protocols. A gateway that is not installed is missing from the table; one that does not serve a
protocol fails its tests. `--write` puts the table into docs/explanation/score.md. `--failed` names the tests
of Open Responses that a gateway fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from packaging.requirements import Requirement

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "score.md"
KEY = "sk-score-0123456789"
# What clients ask for: tests of reasoning are skipped for models with other names
MODEL, CLAUDE = "gpt-5", "claude-sonnet-4-5"
# client protocol -> schemas, base URL behind the address, header of the key, further headers
FORMATS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "openai-chat": ("openai_chat.json", "/v1", "Authorization", {}),
    "open-responses": ("openresponses.json", "/v1", "Authorization", {}),
    "anthropic": ("anthropic.json", "/v1", "x-api-key", {"anthropic-version": "2023-06-01"}),
    "google-genai": ("", "", "x-goog-api-key", {}),
}
IGNORED = [
    # Its table lacks two events that its own schema of Open Responses defines
    "unknown SSE event type: response.reasoning_summary_text.",
    # OpenAI sends null for models without one (gpt-5-nano), and the SDKs of OpenRouter require the field
    "system_fingerprint: None is not of type 'string'",
]
START_SECONDS = 240  # on a busy machine; each takes a few seconds on a quiet one
Scores = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class ScoredGateway:
    """`command` gets the folder for its configuration, its port and the upstream's base URL."""

    name: str
    requirement: str
    command: Callable[[Path, int, str], list[str]]
    environ: dict[str, str]


def start_dragoman(place: Path, port: int, upstream: str) -> list[str]:
    file = place / "dragoman.toml"
    provider = f'[providers.up]\nprotocol = "openai-chat"\nbase_url = "{upstream}"\napi_key = "{KEY}"\n'
    file.write_text(f'{provider}[models]\n"{MODEL}" = "up:{MODEL}"\n"{CLAUDE}" = "up:{MODEL}"\n')
    return [_program("dragoman"), "serve", "--config", str(file), "--port", str(port)]


def start_litellm(place: Path, port: int, upstream: str) -> list[str]:
    file = place / "litellm.yaml"  # JSON is YAML
    parameters = {"model": f"openai/{MODEL}", "api_base": upstream, "api_key": KEY}
    models = [{"model_name": name, "litellm_params": parameters} for name in (MODEL, CLAUDE)]
    # else it speaks Responses to the upstream
    settings = {"telemetry": False, "use_chat_completions_url_for_anthropic_messages": True}
    file.write_text(json.dumps({"model_list": models, "litellm_settings": settings}))
    command = [_program("litellm"), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    return [*command, "--num_workers", "1"]


def start_rosetta(place: Path, port: int, upstream: str) -> list[str]:
    file = place / "rosetta.jsonc"
    provider = {"api_key": KEY, "base_url": upstream, "type": "openai_chat"}
    server = {"host": "127.0.0.1", "port": port, "open_on_no_keys": True}
    models = dict.fromkeys((MODEL, CLAUDE), "openai_chat")
    file.write_text(json.dumps({"providers": {"openai_chat": provider}, "models": models, "server": server}))
    command = [_program("llm-rosetta-gateway"), "--config", str(file), "--no-banner"]
    return [*command, "--data-dir", str(place / "rosetta")]


GATEWAYS = (
    ScoredGateway("dragoman", "dragoman[gateway]", start_dragoman, {}),
    ScoredGateway(
        "LiteLLM",
        "litellm[proxy]",
        start_litellm,
        {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or it asks the network while it starts
            "LITELLM_LOG": "ERROR",
            "DISABLE_ADMIN_UI": "True",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        },
    ),
    ScoredGateway("LLM-Rosetta", "llm-rosetta", start_rosetta, {}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores of gateways on the same scripted model.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--failed", action="store_true", help="name the failed tests of Open Responses")
    options = parser.parse_args()
    installed = [gateway for gateway in GATEWAYS if _is_installed(gateway)]
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        demo = stack.enter_context(_running(_demo_command, place, {}))
        scores = [score(gateway, place, f"{demo}/v1", options.failed) for gateway in installed]
    table = make_table(installed, scores)
    print(table)
    if options.write:
        text = PAGE.read_text()
        renewed = rf"\g<1>\n{table}\n\n\g<2>"
        PAGE.write_text(re.sub(r"(<!-- table -->\n).*?(<!-- /table -->)", renewed, text, flags=re.DOTALL))


def score(gateway: ScoredGateway, place: Path, upstream: str, failed: bool) -> Scores:
    """Tests passed and tests, by suite."""

    def command(place: Path, port: int) -> list[str]:
        return gateway.command(place, port, upstream)

    with _running(command, place, gateway.environ) as url:
        passed = _open_responses().Suite(url, KEY, MODEL, {}).run()
        if failed:
            print(gateway.name, "fails", *[name for name, is_passed in passed.items() if not is_passed])
        return {
            "Open Responses": (sum(passed.values()), len(passed)),
            **{f"llm-comply, {name}": comply(name, url) for name in FORMATS},
            "trustedrouter-provider-check": check_provider(url, place),
        }


def _open_responses() -> Any:
    """It stands beside the schemas that our own tests use."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    return import_module("compliance.open_responses")


def check_provider(url: str, place: Path) -> tuple[int, int]:
    """Checks that pass, and those that ran: catalog, chat, streams, tools and structured output in Chat."""
    report = place / "provider.json"
    report.unlink(missing_ok=True)
    program = _program("trustedrouter-provider-check")
    asked = ["--base-url", f"{url}/v1", "--model", MODEL, "--tier", "5", "--json", str(report)]
    subprocess.run(
        [program, *asked], env={**os.environ, "TR_PROVIDER_API_KEY": KEY}, capture_output=True, check=False
    )
    checks = json.loads(report.read_text())["checks"]
    ran = [check["status"] for check in checks if check["status"] != "skip"]
    return ran.count("pass"), len(ran)


def comply(name: str, url: str) -> tuple[int, int]:
    import llm_comply  # pyright: ignore[reportMissingTypeStubs] - it has none
    from llm_comply.config import ComplianceConfig  # pyright: ignore[reportMissingTypeStubs]
    from llm_comply.result import TestStatus  # pyright: ignore[reportMissingTypeStubs]
    from llm_comply.runner import TestRunner  # pyright: ignore[reportMissingTypeStubs]
    from llm_comply.schema import SpecLoader  # pyright: ignore[reportMissingTypeStubs]
    from llm_comply.tests import get_tests  # pyright: ignore[reportMissingTypeStubs]

    schemas, path, header, more = FORMATS[name]
    specs = Path(llm_comply.__file__).parent / "specs"
    config = ComplianceConfig(
        base_url=url + path,
        api_key=KEY,
        model=CLAUDE if name == "anthropic" else MODEL,
        auth_header=header,
        use_bearer_prefix=header == "Authorization",
        extra_headers=more,
        ignore_errors=IGNORED,
        timeout=20.0,
    )
    tests = get_tests(name)
    results = (
        TestRunner(config, tests, SpecLoader(str(specs / schemas) if schemas else None)).run_all().results
    )
    return sum(result.status is TestStatus.PASSED for result in results), len(tests)


def make_table(gateways: list[ScoredGateway], scores: list[Scores]) -> str:
    titles = [f"{gateway.name} {version(Requirement(gateway.requirement).name)}" for gateway in gateways]
    rows = [[name, *(" of ".join(map(str, each[name])) for each in scores)] for name in scores[0]]
    packages = ["packages that it installs", *(str(count_packages(each.requirement)) for each in gateways)]
    lines = [[f"{date.today():%d %B %Y}", *titles], ["---"] * (len(titles) + 1), *rows, packages]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def count_packages(requirement: str) -> int:
    """The package and all that it needs here, itself included."""
    found: set[str] = set()
    waiting = [Requirement(requirement)]
    while waiting:
        asked = waiting.pop()
        extras = {"", *asked.extras}
        with suppress(PackageNotFoundError):
            for line in requires(asked.name) or ():
                needed = Requirement(line)
                wanted = not needed.marker or any(
                    needed.marker.evaluate({"extra": extra}) for extra in extras
                )
                name = needed.name.lower().replace("_", "-")
                if wanted and name not in found:
                    waiting.append(needed)
            found.add(asked.name.lower().replace("_", "-"))
    return len(found)


def _is_installed(gateway: ScoredGateway) -> bool:
    name = Requirement(gateway.requirement).name
    if find_spec(name.replace("-", "_")) is None:
        print(f"{gateway.name} is not installed and is left out", file=sys.stderr)
        return False
    return True


def _demo_command(place: Path, port: int) -> list[str]:
    file = place / "demo.toml"
    file.write_text("")
    return [_program("dragoman"), "serve", "--config", str(file), "--port", str(port)]


@contextmanager
def _running(
    command: Callable[[Path, int], list[str]], place: Path, environ: dict[str, str]
) -> Generator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    silent = subprocess.DEVNULL
    argv, environ = command(place, port), {**os.environ, **environ}
    process = subprocess.Popen(argv, env=environ, stdout=silent, stderr=silent)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process)
        yield url
    finally:
        process.terminate()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urlopen(f"{url}/v1/models", timeout=2):
            return
        time.sleep(0.2)
    raise SystemExit(f"{process.args} did not start")


def _program(name: str) -> str:
    return shutil.which(name, path=str(Path(sys.executable).parent)) or name


if __name__ == "__main__":
    main()
