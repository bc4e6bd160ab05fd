"""`dragoman run` with fake agents on the PATH: their settings, that it works, that nothing is left."""

import json
import os
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cli.gateways import PROGRAM, surroundings
from dragoman.cli.agents import AGENTS, GatewayAccess, settings_for
from dragoman.cli.agents.launch import merge_tables
from waiting import wait_until

# Records its settings, sends a request to the gateway as an agent would, and does as PLAN says.
AGENT = """#!{python}
import json, os, signal, sys, time, urllib.error, urllib.request

arguments, env = sys.argv[1:], os.environ
name = os.path.basename(sys.argv[0])
if name == "claude":
    url, key = env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_AUTH_TOKEN"]
elif name == "codex":
    said = dict(text.split("=", 1) for text in arguments if "=" in text)
    url = said["model_providers.dragoman.base_url"].removesuffix("/v1")
    key = env[said["model_providers.dragoman.env_key"]]
elif name == "gemini":
    url, key = env["GOOGLE_GEMINI_BASE_URL"], env["GEMINI_API_KEY"]
elif name == "opencode":
    options = json.loads(env["OPENCODE_CONFIG_CONTENT"])["provider"]["dragoman"]["options"]
    url, key = options["baseURL"].removesuffix("/v1"), options["apiKey"]
else:
    url, key = env["OPENAI_BASE_URL"].removesuffix("/v1"), env["OPENAI_API_KEY"]

def ask(model, key):
    body = {{"model": model, "max_tokens": 9, "messages": [{{"role": "user", "content": "hello"}}]}}
    headers = {{"content-type": "application/json", "authorization": "Bearer " + key}}
    request = urllib.request.Request(url + "/v1/messages", json.dumps(body).encode(), headers)
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request).status
    except urllib.error.HTTPError as error:
        return error.code

home = env.get("GEMINI_CLI_HOME")
record = {{
    "arguments": arguments, "env": dict(env), "url": url,
    "asked": [ask("claude-some-small-one", key), ask("any", "wrong")],
    "home": home and {{
        name: open(f"{{home}}/.gemini/{{name}}").read() for name in os.listdir(f"{{home}}/.gemini")
    }},
}}
plan = env.get("PLAN", "0")
if plan == "trap":
    def leave(number, frame):
        sys.exit(70 + number)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
with open(env["RECORD"] + ".part", "w") as out:
    json.dump(record, out)
os.rename(env["RECORD"] + ".part", env["RECORD"])
print("the agent was here")
if plan in ("trap", "wait"):
    time.sleep(60)
sys.exit(int(plan) if plan.isdigit() else 0)
"""


class Place:
    """A machine with fake agents: its own PATH, home and temporary directory."""

    def __init__(self, root: Path) -> None:
        self.root, self.record, self.temporary = root, root / "record.json", root / "tmp"
        self.home, programs = root / "home", root / "bin"
        for directory in (self.temporary, self.home, programs):
            directory.mkdir()
        for agent in AGENTS.values():
            (programs / agent.program).write_text(AGENT.format(python=sys.executable))
            (programs / agent.program).chmod(0o755)
        places = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(self.home), "TMPDIR": str(self.temporary)}
        places["XDG_CONFIG_HOME"] = str(self.home / ".config")
        self.environment = surroundings(**places, RECORD=str(self.record))

    def start(self, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*PROGRAM, "run", *arguments], cwd=self.root, env={**self.environment, **variables},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **variables)
        out, errors = process.communicate(timeout=120)
        return process.returncode, out, errors

    def recorded(self) -> dict[str, Any]:
        wait_until(self.record.exists, "the agent was never there")
        return json.loads(self.record.read_text())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_reaches_its_own_gateway(place: Place, name: str):
    code, out, errors = place.run(name, "--model", "demo:m", "--log", "log.jsonl", "--", "-p", "hi there")
    record = place.recorded()
    assert (code, out) == (0, "the agent was here\n"), errors
    assert record["asked"] == [200, 401]  # by its key, and by no other
    assert record["arguments"][-2:] == ["-p", "hi there"]
    lines = [json.loads(line) for line in (place.root / "log.jsonl").read_text().splitlines()]
    served = [line for line in lines if line["status"] == 200]
    assert [(line["provider"], line["target"]) for line in served] == [("demo", "m")]
    assert list(place.temporary.iterdir()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(record["url"].rpartition(":")[2]))) != 0


def test_codex_searches_where_the_gateway_has_a_backend():
    switch = "model_providers.dragoman.supports_standalone_web_search=true"
    with_backend = settings_for(AGENTS["codex"], GatewayAccess("http://x", "k", searches=True), "m")
    assert switch in with_backend.arguments
    assert switch not in settings_for(AGENTS["codex"], GatewayAccess("http://x", "k"), "m").arguments


# name: (agent, in its environment or arguments)
TOLD = {
    "claude": {"ANTHROPIC_MODEL": "demo:m", "ANTHROPIC_CUSTOM_MODEL_OPTION": "demo:m"},
    "codex": 'model="demo:m"',
    "gemini": "demo:m",
    "opencode": {"OPENCODE_CONFIG_CONTENT": '"model":"dragoman/demo:m"'},
    "qwen": {"OPENAI_MODEL": "demo:m"},
}  # fmt: skip


@pytest.mark.parametrize("name, expected", TOLD.items(), ids=TOLD)
def test_every_agent_gets_its_model(place: Place, name: str, expected: dict[str, str] | str):
    place.run(name, "--model", "demo:m")
    record = place.recorded()
    if isinstance(expected, str):
        assert expected in record["arguments"]
    else:
        assert {key: value for key, value in expected.items() if value not in record["env"][key]} == {}


def test_without_a_model_the_agent_asks_as_it_likes(place: Place):
    assert place.run("claude")[0] == 0
    record = place.recorded()
    assert "ANTHROPIC_MODEL" not in record["env"]
    assert record["asked"] == [200, 401]


def test_what_would_lead_it_elsewhere_is_taken_away(place: Place):
    keys = {"ANTHROPIC_API_KEY": "mine", "CLAUDE_CODE_USE_BEDROCK": "1"}
    place.run("claude", "--no-check", no_proxy="x", OTHER="stays", **keys)
    env = place.recorded()["env"]
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} & env.keys()
    assert (env["no_proxy"], env["OTHER"]) == ("x,127.0.0.1,localhost", "stays")


def test_gemini_logs_in_by_key_in_a_home_like_its_own(place: Place):
    own = place.home / ".gemini"
    own.mkdir()
    settings = {"ui": {"theme": "x"}, "security": {"auth": {"selectedType": "oauth"}, "a": 1}}
    (own / "settings.json").write_text(json.dumps(settings))
    (own / "memory.md").write_text("remember")
    place.run("gemini", "--model", "demo:m")
    home = place.recorded()["home"]
    assert home["memory.md"] == "remember"
    security = {"auth": {"selectedType": "gemini-api-key"}, "a": 1}
    assert json.loads(home["settings.json"]) == {"ui": {"theme": "x"}, "security": security}
    assert "oauth" in (own / "settings.json").read_text()


def test_settings_are_merged_however_deep():
    assert merge_tables({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}, "e": {"f": 4}}) == {
        "a": {"b": 9, "c": 2}, "d": 3, "e": {"f": 4},
    }  # fmt: skip
    assert merge_tables({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}


def test_all_models_of_the_agent_go_to_the_one_that_was_chosen(place: Place):
    (place.root / "dragoman.toml").write_text(
        '[models]\n"claude-*" = "demo:elsewhere"\nmine = ["demo:first", "demo:second"]\n'
    )
    place.run("claude", "--model", "mine", "--log", "log.jsonl", "--config", "dragoman.toml")
    (line,) = [json.loads(line) for line in (place.root / "log.jsonl").read_text().splitlines()][:1]
    assert (line["model"], line["target"]) == ("claude-some-small-one", "first")


@pytest.mark.parametrize("code", [1, 3, 77])
def test_its_exit_code_is_ours(place: Place, code: int):
    assert place.run("claude", PLAN=str(code))[0] == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signals_reach_the_agent_and_it_decides(place: Place, number: signal.Signals):
    process = place.start("claude", PLAN="trap")
    place.recorded()
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does, to everyone in the foreground
    else:
        process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 70 + number
    assert list(place.temporary.iterdir()) == []


def test_an_agent_that_a_signal_ended(place: Place):
    process = place.start("gemini", "--model", "demo:m", PLAN="wait")
    place.recorded()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(place.temporary.iterdir()) == []


def test_failures_are_printed_when_the_terminal_is_free_again(place: Place):
    _, out, errors = place.run("claude", "--model", "demo:m")
    assert out == "the agent was here\n"
    _, summary = errors.splitlines()
    assert summary.startswith("dragoman: 1 of 2 exchanges failed, the last with 401 from dragoman: ")


@pytest.mark.parametrize("name", AGENTS)
def test_a_missing_agent_gets_its_install_command(place: Place, name: str):
    code, out, errors = place.run(name, PATH=str(place.temporary))  # in /usr/bin it may be
    assert (code, out) == (127, "")
    assert f"npm install -g {AGENTS[name].package}" in errors
    assert errors.count("\n") == 1


TWO = {"GROQ_API_KEY": "k", "XAI_API_KEY": "k"}
# name: (arguments, environment, message)
WRONG: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "an unknown agent": (("cursor",), {}, "'cursor'"),
    "an unknown model": (("claude", "--model", "x"), TWO, "Unknown model 'x'"),
    "no model, several providers": (("claude",), TWO, "'claude-sonnet-5-5'"),
    "no model, another vendor": (("claude",), {"GROQ_API_KEY": "k"}, "Choose one: --model groq:…"),
    "a provider without its key": (
        ("claude", "--model", "groq:m"),
        {},
        "Provider 'groq' of 'groq:m' has no key. Set GROQ_API_KEY",
    ),
    "a provider without its key beside another one": (
        ("claude", "--model", "mistral:m"),
        {"GROQ_API_KEY": "k"},
        "Set MISTRAL_API_KEY",
    ),
    "an unknown provider": (
        ("claude", "--model", "grok:m"),
        {"GROQ_API_KEY": "k"},
        "Unknown provider 'grok'. Did you mean 'groq'?",
    ),
    "an option of the agent before --": (("claude", "--yolo"), {}, "--yolo"),
}


@pytest.mark.parametrize("arguments, variables, message", WRONG.values(), ids=WRONG)
def test_wrong_use_is_one_line(
    place: Place, arguments: tuple[str, ...], variables: dict[str, str], message: str
):
    code, out, errors = place.run(*arguments, **variables)
    assert (code, out) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1
    assert not place.record.exists()


def test_it_names_model_provider_and_configuration(place: Place):
    _, _, errors = place.run("claude", "--model", "demo:m")
    assert errors.splitlines()[0] == (
        "dragoman: Claude Code → demo:m (scripted model); config: no configuration file"
    )
    own = place.home / ".config" / "dragoman" / "dragoman.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        '[models]\nmine = { to = ["demo:a", "demo:b"], context_window = 100_000, images = false }\n'
    )
    _, _, errors = place.run("claude", "--model", "mine")
    assert errors.splitlines()[0] == (
        f"dragoman: Claude Code → demo:a (scripted model), else demo:b; config: {own}"
    )


# agent: its settings for a window of 100,000 tokens and replies of at most 8,000
WINDOWS = {
    "claude": {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "92000", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000"},
    "codex": "model_context_window=100000",
    "opencode": {"OPENCODE_CONFIG_CONTENT": '"limit":{"context":100000,"output":8000}'},
}  # fmt: skip


@pytest.mark.parametrize("name, expected", WINDOWS.items(), ids=WINDOWS)
def test_agents_are_given_the_window_of_the_model(place: Place, name: str, expected: dict[str, str] | str):
    (place.root / "dragoman.toml").write_text(
        '[models]\nmine = { to = "demo:m", context_window = 100_000, max_output = 8000, images = false }\n'
    )
    place.run(name, "--model", "mine", "--config", "dragoman.toml")
    record = place.recorded()
    if isinstance(expected, str):
        assert expected in record["arguments"]
    else:
        assert {key: value for key, value in expected.items() if value not in record["env"][key]} == {}


def test_secrets_stay_with_the_gateway(place: Place):
    (place.root / "dragoman.toml").write_text('[providers.mine]\nprotocol = "anthropic"\n'
        'base_url = "http://127.0.0.1:9"\napi_key = "env:MINE"\n')  # fmt: skip
    secrets = {"MINE": "k", "GROQ_API_KEY": "k", "OPENAI_API_KEY": "k", "PGPASSWORD": "k"}
    more = {"DRAGOMAN_STORE__URL": "memory:", "GEMINI_API_KEY": "k", "GITHUB_TOKEN": "stays"}
    place.run(
        "claude",
        "--model",
        "demo:m",
        "--config",
        "dragoman.toml",
        "--env",
        "GEMINI_API_KEY",
        **secrets,
        **more,
    )
    env = place.recorded()["env"]
    assert not {*secrets, "DRAGOMAN_STORE__URL"} & env.keys()
    assert (env["GEMINI_API_KEY"], env["GITHUB_TOKEN"]) == ("k", "stays")


def test_the_log_is_for_its_owner_only(place: Place):
    place.run("claude", "--model", "demo:m", "--log", "log.jsonl")
    assert (place.root / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_settings_with_comments_are_read(place: Place):
    own = place.home / ".gemini"
    own.mkdir()
    (own / "settings.json").write_text(
        '{ // mine\n "mcpServers": {"a": {"url": "http://x, ]"}}, /* more */ "list": [1, 2, // and\n ],\n}'
    )
    place.run("gemini", "--model", "demo:m")
    settings = json.loads(place.recorded()["home"]["settings.json"])
    assert settings["mcpServers"] == {"a": {"url": "http://x, ]"}}
    assert settings["list"] == [1, 2]


class Upstream(BaseHTTPRequestHandler):
    """Lists one model, takes one key, and has no model called `gone`."""

    def do_GET(self) -> None:
        self.reply(200, {"data": [{"id": "listed"}]}) if self.known() else self.refuse(401, "wrong key")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["model"] == "gone":
            self.refuse(404, "no such model")
        else:
            message = {"role": "assistant", "content": "Hi"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.reply(200, {"id": "c", "model": body["model"], "choices": [choice]})

    def known(self) -> bool:
        return self.headers["authorization"] == "Bearer right"

    def refuse(self, status: int, message: str) -> None:
        self.reply(status, {"error": {"message": message, "type": "invalid_request_error"}})

    def reply(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


# name: (key, model, the one line that says what is wrong; empty: the agent runs)
PREFLIGHT = {
    "a model of the list": ("right", "listed", ""),
    "a model that is not listed and works": ("right", "other", ""),
    "a model that does not exist": ("right", "gone", "mine:gone: no such model"),
    "a wrong key": ("wrong", "listed", "mine refuses the key: wrong key"),
}


@pytest.mark.parametrize("key, model, problem", PREFLIGHT.values(), ids=PREFLIGHT)
def test_key_and_model_are_checked_before_the_agent_starts(place: Place, key: str, model: str, problem: str):
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        (place.root / "dragoman.toml").write_text(
            f'[providers.mine]\nprotocol = "openai-chat"\napi_key = "{key}"\n'
            f'base_url = "http://127.0.0.1:{server.server_port}/v1"\n'
        )
        code, _, errors = place.run("claude", "--model", f"mine:{model}", "--config", "dragoman.toml")
        server.shutdown()
    assert problem in errors.splitlines()[-1]
    assert (code, place.record.exists()) == ((1, False) if problem else (0, True)), errors


def test_a_provider_that_is_not_there_is_named_unless_nobody_checks(place: Place):
    (place.root / "dragoman.toml").write_text(
        '[providers.mine]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    arguments = ("claude", "--model", "mine:m", "--config", "dragoman.toml")
    code, _, errors = place.run(*arguments)
    assert (code, place.record.exists()) == (1, False)
    assert "mine cannot be reached at http://127.0.0.1:9/v1" in errors
    assert place.run(*arguments, "--no-check")[0] == 0
    assert place.record.exists()


def test_a_provider_alone_is_no_model_of_the_demo(place: Place):
    code, _, errors = place.run("claude", "--model", "groq")
    assert code == 2
    assert errors.startswith(
        "dragoman run: 'groq' is a provider. Name a model of it: groq:MODEL. Set GROQ_API_KEY "
    )


def test_an_option_of_the_agent_before_the_dashes(place: Place):
    code, _, errors = place.run("claude", "-p", "hi")
    assert code == 2
    assert "Options of the agent stand behind --: dragoman run claude -- -p" in errors
