"""`dragoman inspect`, `plan` and `replay`, on a recording made by a real exchange."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.gateway.config import Config
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import PrivateGateway, private_gateway
from dragoman.inspector.server import mount_inspector
from dragoman.recording.recorder import Recorder
from dragoman.recording.values import dump_recording, load_recording
from waiting import wait_until

BODY = {
    "model": "demo:any",
    "max_tokens": 50,
    "top_k": 3,
    "tools": [
        {"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
    ],
    "messages": [{"role": "user", "content": "Read a file."}],
}


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def gateway(recorder: Recorder) -> Iterator[PrivateGateway]:
    with private_gateway(Config(), AccessLog(lambda line: None), recorder, mount_inspector) as running:
        headers = {
            "x-api-key": running.key,
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
        }
        request = urllib.request.Request(f"{running.url}/v1/messages", json.dumps(BODY).encode(), headers)
        urllib.request.urlopen(request).read()
        wait_until(lambda: recorder.flush() or recorder.store.summaries())  # behind the answer
        yield running


@pytest.fixture
def file(gateway: PrivateGateway, recorder: Recorder, tmp_path: Path) -> Path:
    recording = recorder.store.get(recorder.store.summaries()[0].id)
    assert recording is not None
    path = tmp_path / "bug.exchange.json"
    path.write_text(dump_recording(recording))
    return path


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_exchanges_are_listed_and_saved(gateway: PrivateGateway, recorder: Recorder, tmp_path: Path) -> None:
    place = ("--url", gateway.url, "--key", gateway.key)
    code, out = run("inspect", *place)
    id = recorder.store.summaries()[0].id
    assert code == 0
    assert id in out
    assert "demo:any" in out
    saved = tmp_path / "one.exchange.json"
    assert run("inspect", id, *place, "--save", saved)[0] == 0
    assert load_recording(saved.read_bytes()).summary.id == id
    assert saved.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("key, problem", [("wrong", "401"), (None, "401")])
def test_other_keys_see_nothing(gateway: PrivateGateway, key: str | None, problem: str) -> None:
    code, out = run("inspect", "--url", gateway.url, *(("--key", key) if key else ()))
    assert (code, problem in out) == (1, True)
    assert ("inspector.admin_keys: --key" in out) is (key is None)


def test_a_gateway_that_is_not_there_is_named() -> None:
    code, out = run("inspect", "--url", "http://127.0.0.1:9")
    assert code == 1
    assert "No gateway with --inspect answers at http://127.0.0.1:9" in out
    assert "--url" in out.rpartition("Or name ")[2]


def test_a_file_is_shown_and_exported(file: Path, tmp_path: Path) -> None:
    code, out = run("inspect", file)
    assert code == 0
    assert "attempt 1 demo:any" in out
    page = tmp_path / "bug.html"
    assert run("inspect", file, "--html", page)[0] == 0
    assert b"<inspector-app>" in page.read_bytes()


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.exchange.json"
    path.write_text("{}")
    code, out = run("inspect", path)
    assert code == 1
    assert "This is no recording" in out


def test_a_plan_names_losses_before_anything_is_sent(file: Path, tmp_path: Path) -> None:
    code, out = run("plan", file, "--to", "openai", "--json")
    (plan,) = json.loads(out)
    assert code == 0
    assert plan["protocol"].startswith("openai")
    assert any(loss["where"] == "top_k" for loss in plan["losses"])
    body = tmp_path / "request.json"
    body.write_text(json.dumps(BODY))
    assert "top_k" in run("plan", body, "--from", "anthropic", "--to", "openai")[1]
    assert run("plan", body)[0] == 2


def test_a_request_is_replayed(file: Path, tmp_path: Path) -> None:
    saved = tmp_path / "again.exchange.json"
    code, out = run("replay", file, "--model", "demo:other", "--save", saved)
    assert code == 0
    assert '"type":"message"' in out.replace(" ", "")
    assert load_recording(saved.read_bytes()).summary.target == "other"


def test_translate_takes_a_recording(file: Path) -> None:
    code, out = run("translate", "request", "--from", "anthropic", "--to", "gemini", file)
    assert code == 0
    assert "functionDeclarations" in out
