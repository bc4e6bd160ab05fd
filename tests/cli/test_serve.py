"""`dragoman serve` as a process: what it says, how it ends, what it refuses."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cli.gateways import PROGRAM, ask, serving, status, surroundings
from dragoman.cli.agents import AGENTS
from waiting import LONG, wait_until


@contextmanager
def idle_connection(url: str) -> Iterator[socket.socket]:
    """One that was answered once."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), LONG) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
        yield idle


def refused(directory: Path, *arguments: str, **variables: str) -> str:
    """The one line with which it refuses to serve."""
    done = subprocess.run(
        [*PROGRAM, "serve", *arguments],
        cwd=directory, env=surroundings(**variables), capture_output=True, text=True, timeout=99, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_plain_serve_is_the_demo(tmp_path: Path):
    installed = tmp_path / "bin"
    installed.mkdir()
    for agent in AGENTS.values():
        (installed / agent.program).symlink_to("/bin/sh")
    with serving(tmp_path, PATH=str(installed)) as (url, _, log):
        printed = log.read_text()
        assert "loopback only: no keys are set" in printed
        assert "The built-in demo model answers" in printed
        for agent in AGENTS.values():
            (line,) = [line for line in printed.splitlines() if line.startswith(f"{agent.title} ")]
            assert url in line
            assert f" {agent.program}" in line
        assert ask(url, "hello")["type"] == "message"


def test_it_says_who_has_a_key_and_never_the_key(tmp_path: Path):
    (tmp_path / "dragoman.toml").write_text(
        '[providers.mistral]\n[models]\nfast = "groq:x"\nslow = "together:y"\n[server]\nkeys = ["env:MINE"]\n'
    )
    with serving(tmp_path, GROQ_API_KEY="gsk-hush", MINE="also-hush") as (url, _, log):
        printed = log.read_text()
        assert "clients need a key" in printed
        assert re.search(r"provider +groq: .*, key found", printed)
        assert re.search(r"provider +mistral: .*, no key: MISTRAL_API_KEY is not set", printed)
        assert re.search(r"model +fast → groq:x", printed)
        assert "slow cannot be served: together:y has no key. Set TOGETHER_API_KEY." in printed
        assert "hush" not in printed
        assert (status(url), status(url, "wrong")) == (401, 401)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_streams_end_before_it_does(tmp_path: Path, workers: str, number: signal.Signals):
    with serving(tmp_path, "--workers", workers) as (url, process, log):
        stream = ask(url, "tell me something [[fault: slow]]", stream=True)
        first = stream.readline()
        children = workers_of(process.pid)
        process.send_signal(number)
        rest = stream.read()
        assert first.startswith(b"event: message_start")
        assert rest.rstrip().endswith(b'data: {"type":"message_stop"}')
        assert process.wait(60) == 0  # a busy machine starts a worker slowly
        assert log.read_text().endswith("dragoman stopped\n")
        assert "Traceback" not in log.read_text()
        assert len(children) == (2 if workers == "2" else 0)
        assert [child for child in children if alive(child)] == []
        with pytest.raises(urllib.error.URLError):
            ask(url, "hello")


# In a worker: says that Python runs, and goes on when the signal has been sent
SLOW_START = """\
import os, sys, time
if any("spawn_main" in argument for argument in sys.orig_argv):
    open(f"starting-{os.getpid()}", "w").close()
    while not os.path.exists("signalled"):
        time.sleep(0.01)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_workers_that_are_still_starting_end_without_a_word(tmp_path: Path, number: signal.Signals):
    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    with serving(tmp_path, "--workers", "2", PYTHONPATH=str(tmp_path)) as (_, process, log):
        wait_until(lambda: len(list(tmp_path.glob("starting-*"))) == 2)
        process.send_signal(number)
        (tmp_path / "signalled").touch()
        assert process.wait(60) == 0
        assert log.read_text().endswith("\ndragoman stopped\n")
        assert "Traceback" not in log.read_text()


def test_a_stream_that_takes_too_long_is_cut(tmp_path: Path):
    with serving(tmp_path, DRAGOMAN_SERVER__GRACE="1") as (url, process, _):
        stream = ask(url, "tell me something [[fault: stall]]", stream=True)
        stream.readline()
        process.terminate()
        assert process.wait(60) == 0


def test_several_workers_share_the_port(tmp_path: Path):
    with serving(tmp_path, "--workers", "2") as (url, _, log):
        assert "2 workers" in log.read_text()
        assert [ask(url, f"hello {number}")["type"] for number in range(8)] == ["message"] * 8


def test_several_workers_record_into_one_file(tmp_path: Path):
    (tmp_path / "dragoman.toml").write_text(
        f'[inspector]\nenabled = true\nkeep = 100\npath = "{tmp_path}/recordings.db"\n'
    )
    with serving(tmp_path, "--workers", "2") as (url, _, _):
        for number in range(8):
            ask(url, f"hello {number}")
        wait_until(lambda: len(listed(url)) >= 8)
        assert len({row["id"] for row in listed(url)}) == 8


def listed(url: str) -> list[dict[str, str]]:
    with urllib.request.urlopen(f"{url}/inspect/api/exchanges") as reply:
        return [row for row in json.load(reply)["rows"] if row["state"] == "done"]


def test_the_inspector_of_several_workers_needs_a_file(tmp_path: Path):
    done = subprocess.run(
        [*PROGRAM, "serve", "--inspect", "--workers", "2"],
        cwd=tmp_path, env=surroundings(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "inspector.keep" in done.stderr


def test_a_worker_that_dies_is_replaced(tmp_path: Path):
    with serving(tmp_path, "--workers", "2") as (url, process, _):
        ask(url, "hello")
        for child in workers_of(process.pid):
            os.kill(child, signal.SIGKILL)

        def answers() -> bool:
            with suppress(OSError, urllib.error.URLError):
                return ask(url, "hello")["type"] == "message"
            return False

        wait_until(answers)


def test_workers_end_with_whom_they_work_for(tmp_path: Path):
    with serving(tmp_path, "--workers", "2") as (url, process, _):
        ask(url, "hello")
        workers = workers_of(process.pid)
        process.kill()
        wait_until(lambda: not [worker for worker in workers if alive(worker)])


def test_told_twice_it_waits_for_nobody(tmp_path: Path):
    with serving(tmp_path, "--workers", "2") as (url, process, _):
        stream = ask(url, "tell me something [[fault: stall]]", stream=True)
        stream.readline()
        workers = workers_of(process.pid)
        with idle_connection(url) as idle:
            process.terminate()
            assert idle.recv(65536) == b""  # its worker was told
        assert process.poll() is None
        process.terminate()
        assert process.wait(60) == 0
        assert [worker for worker in workers if alive(worker)] == []


def test_a_port_in_use_is_one_line(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        printed = refused(tmp_path, "--port", str(port))
    assert printed.startswith(f"dragoman: cannot listen on 127.0.0.1:{port}: address already in use. ")
    assert printed.endswith(f"port: --port {port + 1}, or in a clone: make run PORT={port + 1}\n")


KEY = {"DRAGOMAN_SERVER__KEYS": "k"}
REFUSALS: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "no such file": (("--config", "nowhere.toml"), {}, "There is no file nowhere.toml"),
    "open to the world without a key": (
        ("--host", "0.0.0.0"),
        {},
        "Refusing to listen on 0.0.0.0 without client keys",
    ),
    "a mistake in a variable": ((), {"DRAGOMAN_SERVER__GRACE": "x"}, "DRAGOMAN_SERVER__GRACE: expected a"),
    "an option that needs another setting": (
        ("--inspect",),
        KEY,
        "dragoman: --inspect: With keys, the inspector",
    ),
    "a search backend that is none": (
        (),
        {"DRAGOMAN_HOSTED__WEB_SEARCH__BACKEND": "serxng"},
        "hosted.web_search: Unknown search backend 'serxng'. Did you mean 'searxng'?",
    ),
    "an address that is not ours": (("--host", "192.0.2.1"), KEY, "cannot listen on 192.0.2.1"),
    "a host that is none": (("--host", "no such host"), KEY, "cannot listen on no such host"),
}


@pytest.mark.parametrize("arguments, variables, message", REFUSALS.values(), ids=REFUSALS)
def test_what_it_refuses_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], message: str
):
    assert message in refused(tmp_path, *arguments, **variables)


def test_the_command_line_is_above_the_environment_and_the_file(tmp_path: Path):
    (tmp_path / "my.toml").write_text('[server]\nhost = "192.0.2.1"\nkeys = ["k"]\n')
    with serving(tmp_path, "--config", "my.toml", "--host", "127.0.0.1", DRAGOMAN_SERVER__PORT="1") as (
        url,
        _,
        _,
    ):
        assert status(url, "k") == 200


def workers_of(pid: int) -> list[int]:
    """The children that serve; multiprocessing has a helper of its own beside them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_printed_commands_leave_the_key_to_the_shell(tmp_path: Path):
    (tmp_path / "dragoman.toml").write_text('[server]\nkeys = ["env:MINE"]\n')
    with serving(tmp_path, MINE="also-hush") as (_, _, log):
        lines = {agent.title: line for agent in AGENTS.values() for line in log.read_text().splitlines()
                 if line.startswith(f"{agent.title} ")}  # fmt: skip
    assert not lines or "These commands read a key of this gateway from DRAGOMAN_KEY." in log.read_text()
    programs = {agent.title: agent.program for agent in AGENTS.values()}
    for title, line in lines.items():
        command = line.removeprefix(title).split("  #")[0].strip()
        script = f"{programs[title]}() {{ env; }}; export DRAGOMAN_KEY=secret; {command}"
        out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
        assert "secret" in out.replace("DRAGOMAN_KEY=secret", ""), line
        assert "$DRAGOMAN_KEY" not in out
