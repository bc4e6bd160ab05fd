"""`make score`: how many tests of several suites each gateway passes, and how many packages it installs.

Every gateway stands before the same upstream: the demo model on loopback. It is asked for Chat, but it speaks
every protocol, for gateways that forward. Clients speak the four protocols. A gateway that is not installed
is missing from the table; one that does not serve a protocol fails its tests. `--write` puts the table into
docs/explanation/score.md. `--failed` names the tests of Open Responses that a gateway fails, `--only` one
gateway.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from packaging.requirements import Requirement

from bench import silent
from bench.adapter import Adapted, adapted

_HERE = Path(__file__).parent.parent
PAGE = _HERE / "docs" / "explanation" / "score.md"
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
    environ: dict[str, str] = field(default_factory=dict[str, str])
    adapted: Adapted | None = None
    port_file: str = ""  # of one that chooses its port itself


def start_dragoman(place: Path, port: int, upstream: str) -> list[str]:
    file = place / "dragoman.toml"
    provider = f'[providers.up]\nprotocol = "openai-chat"\nbase_url = "{upstream}"\napi_key = "{KEY}"\n'
    file.write_text(f'{provider}[models]\n"{MODEL}" = "up:{MODEL}"\n"{CLAUDE}" = "up:{MODEL}"\n')
    return [_program("dragoman"), "serve", "--config", str(file), "--inspect", "--port", str(port)]


def start_litellm(place: Path, port: int, upstream: str) -> list[str]:
    file = place / "litellm.yaml"  # JSON is YAML
    parameters = {"model": f"openai/{MODEL}", "api_base": upstream, "api_key": KEY}
    models = [{"model_name": name, "litellm_params": parameters} for name in (MODEL, CLAUDE)]
    # else it speaks Responses to the upstream
    settings = {"telemetry": False, "use_chat_completions_url_for_anthropic_messages": True}
    # one request that fails must not keep the next ones out
    router = {"num_retries": 0, "disable_cooldowns": True}
    conf = {"model_list": models, "litellm_settings": settings, "router_settings": router}
    file.write_text(json.dumps(conf))
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


def start_tensorzero(place: Path, port: int, upstream: str) -> list[str]:
    file = place / "tensorzero.toml"
    (place / TENSORZERO_PORT).unlink(missing_ok=True)
    lines = ["[gateway]", "observability.enabled = false"]
    for name in (MODEL, CLAUDE):
        lines += [f'[models."{name}"]', 'routing = ["up"]', f'[models."{name}".providers.up]']
        lines += ['type = "openai"', f'model_name = "{MODEL}"', f'api_base = "{upstream}/"']
    file.write_text("\n".join(lines))
    module = "bench.gateway.contenders.tensorzero"
    return [sys.executable, "-m", module, str(file), str(place / TENSORZERO_PORT)]


def start_portkey(place: Path, port: int, upstream: str) -> list[str]:
    PORTKEY_HOST["x-portkey-custom-host"] = upstream
    return ["node", str(PORTKEY_PACKAGE / "build/start-server.js"), f"--port={port}", "--headless"]


def start_smg(place: Path, port: int, upstream: str) -> list[str]:
    where = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(_free_port())]
    worker = ["--worker-urls", upstream.removesuffix("/v1"), "--disable-health-check"]
    return [_program("smg"), "launch", "--backend", "openai", "--history-backend", "memory", *where, *worker]


def start_agentic(place: Path, port: int, upstream: str) -> list[str]:
    where = ["--gateway-port", str(port), "--database-url", f"sqlite://{place}/agentic.db?mode=rwc"]
    worker = ["--upstream", upstream.removesuffix("/v1"), "--model", MODEL, "--skip-llm-ready-check"]
    return [_program("agentic"), "serve", "--api-key", KEY, "--no-color", *where, *worker]


TENSORZERO_PORT = "tensorzero.port"
PORTKEY_PACKAGE = Path(sys.prefix) / "npm/node_modules/@portkey-ai/gateway"
PORTKEY_HOST = {"x-portkey-provider": "openai"}
GATEWAYS = (
    ScoredGateway("dragoman", "dragoman[gateway]", start_dragoman),
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
    ScoredGateway("LLM-Rosetta", "llm-rosetta", start_rosetta),
    ScoredGateway(
        "TensorZero",
        "tensorzero",
        start_tensorzero,
        {"OPENAI_API_KEY": KEY},
        Adapted({"/v1/": "/openai/v1/"}, "tensorzero::model_name::"),
        TENSORZERO_PORT,
    ),
    ScoredGateway(
        "Portkey",
        "npm",
        start_portkey,
        {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1", "NODE_ENV": "production"},
        Adapted(headers=PORTKEY_HOST),
    ),
    ScoredGateway("smg", "smg", start_smg),
    ScoredGateway("agentic-api", "agentic-api", start_agentic),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores of gateways on the same scripted model.")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--failed", action="store_true", help="name the failed tests of Open Responses")
    parser.add_argument("--only", default="", help="the names of gateways, with commas")
    options = parser.parse_args()
    asked = options.only.split(",") if options.only else [each.name for each in GATEWAYS]
    warnings.simplefilter("ignore")  # of an SDK about the age of a model
    installed = [each for each in GATEWAYS if each.name in asked and _is_installed(each)]
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
    with _serving(gateway, place, upstream) as url:
        passed = _ours("compliance.open_responses").Suite(url, KEY, MODEL, {}).run()
        if failed:
            print(gateway.name, "fails", *[name for name, is_passed in passed.items() if not is_passed])
        scores = {
            "Open Responses": (sum(passed.values()), len(passed)),
            **{f"llm-comply, {name}": comply(name, url) for name in FORMATS},
            "trustedrouter-provider-check": check_provider(url, place),
            "SDKs, cycles of calls": cycles(url),
        }
    with silent.upstream() as watched, _serving(gateway, place, f"{watched}/v1") as url:
        names = dict.fromkeys(silent.CLIENTS, MODEL) | {"anthropic": CLAUDE}
        _ours("laws.taint")
        scores["fields lost without a word"] = silent.count(url, KEY, names)
    return scores


def cycles(url: str) -> tuple[int, int]:
    """Conversations with calls and their results that the vendors' SDKs hold, whole and streamed."""
    sdks = _ours("gateway.sdks")
    held = [
        _has_conversation(sdks, client, mode, url)
        for client in ("openai-chat", "openai-responses", "anthropic", "gemini")
        for mode in ("whole", "streamed")
    ]
    return sum(held), len(held)


def _has_conversation(sdks: Any, client: str, mode: str, url: str) -> bool:
    """Two calls at once, their results, of which one has failed, and another question with its call."""
    model = CLAUDE if client == "anthropic" else MODEL
    try:
        sdk = sdks.sdk_of(client, url, KEY)
        speak = sdks.speaking(sdk, mode)
        history = sdk.user("Show me a picture of Oslo and Rome")
        first = speak(sdk.request(model, history))
        history += sdk.results(
            first, [sdks.Output("here it is"), sdks.Output("no camera there", failed=True)]
        )
        second = speak(sdk.request(model, history))
        history += [*sdk.reply_turns(second), *sdk.user("And the weather in Bern?")]
        third = speak(sdk.request(model, history))
        history += sdk.results(third, [sdks.Output("rain")])
        last = speak(sdk.request(model, history)).text
    except Exception:  # whatever a gateway does wrong
        return False
    called = [(call.name, call.arguments) for call in (*first.calls, *third.calls)]
    cities = [("take_picture", "Oslo"), ("take_picture", "Rome"), ("get_weather", "Bern")]
    said = "here it is" in second.text and "no camera there" in second.text and "rain" in last
    return said and called == [(name, {"city": city}) for name, city in cities]


def _ours(module: str) -> Any:
    """A part of our own tests, which stand beside."""
    tests = str(_HERE / "tests")
    if tests not in sys.path:
        sys.path.insert(0, tests)
    return import_module(module)


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
    titles = [f"{gateway.name} {_version(gateway)}" for gateway in gateways]
    rows = [[name, *(" of ".join(map(str, each[name])) for each in scores)] for name in scores[0]]
    packages = ["packages that it installs", *(str(_packages(each)) for each in gateways)]
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


def _version(gateway: ScoredGateway) -> str:
    if gateway.requirement == "npm":
        return str(json.loads((PORTKEY_PACKAGE / "package.json").read_text())["version"])
    return version(Requirement(gateway.requirement).name)


def _packages(gateway: ScoredGateway) -> int:
    if gateway.requirement == "npm":
        listed = json.loads((PORTKEY_PACKAGE.parent.parent / ".package-lock.json").read_text())["packages"]
        return len(listed)
    return count_packages(gateway.requirement)


def _is_installed(gateway: ScoredGateway) -> bool:
    name = Requirement(gateway.requirement).name
    found = PORTKEY_PACKAGE.exists() if name == "npm" else find_spec(name.replace("-", "_")) is not None
    if not found:
        print(f"{gateway.name} is not installed and is left out", file=sys.stderr)
        return False
    return True


def _demo_command(place: Path, port: int) -> list[str]:
    file = place / "demo.toml"
    file.write_text("")
    return [_program("dragoman"), "serve", "--config", str(file), "--port", str(port)]


@contextmanager
def _serving(gateway: ScoredGateway, place: Path, upstream: str) -> Generator[str]:
    """The gateway before this upstream, with what its clients must send beside."""

    def command(place: Path, port: int) -> list[str]:
        return gateway.command(place, port, upstream)

    with ExitStack() as stack:
        url = stack.enter_context(_running(command, place, gateway.environ, gateway.port_file))
        yield stack.enter_context(adapted(url, gateway.adapted)) if gateway.adapted else url


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _running(
    command: Callable[[Path, int], list[str]], place: Path, environ: dict[str, str], port_file: str = ""
) -> Generator[str]:
    port, silence = _free_port(), subprocess.DEVNULL
    argv, environ = command(place, port), {**os.environ, **environ}
    # a group of its own: agentic-api leaves its server behind
    process = subprocess.Popen(
        argv, env=environ, stdout=silence, stderr=silence, cwd=_HERE, start_new_session=True
    )
    deadline = time.monotonic() + START_SECONDS
    try:
        while port_file and not (place / port_file).exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        url = f"http://127.0.0.1:{(place / port_file).read_text() if port_file else port}"
        _wait(url, process, deadline)
        yield url
    finally:
        process.terminate()
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def _wait(url: str, process: subprocess.Popen[bytes], deadline: float) -> None:
    """Until it answers, whatever it says."""
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urlopen(f"{url}/v1/models", timeout=2).close()
        except HTTPError:
            return
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"{process.args} did not start")


def _program(name: str) -> str:
    return shutil.which(name, path=str(Path(sys.executable).parent)) or name


if __name__ == "__main__":
    main()
