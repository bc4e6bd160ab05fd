"""`dragoman serve` with another configuration, and with another process, while clients use it."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.gateways import PROGRAM, address, ask, serving, status, surroundings
from dragoman.core.errors import ConfigError
from dragoman.gateway.config import Config
from dragoman.gateway.process import serve
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")

OLD = '[server]\nkeys = ["old-key-1"]\n'
NEW = '[server]\nkeys = ["old-key-1", "new-key-2"]\n'
WORKERS = pytest.mark.parametrize("workers", ["1", "2"])


@WORKERS
def test_sighup_reads_the_keys_again(tmp_path: Path, workers: str):
    file = tmp_path / "dragoman.toml"
    file.write_text(OLD)
    with serving(tmp_path, "--workers", workers) as (url, process, log):
        assert (status(url, "old-key-1"), status(url, "new-key-2")) == (200, 401)
        stream = ask(url, "tell me something [[fault: slow]]", "old-key-1", stream=True)
        first = stream.readline()
        file.write_text(NEW)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: status(url, "new-key-2") == 200)
        assert first.startswith(b"event: message_start")
        assert stream.read().rstrip().endswith(b'data: {"type":"message_stop"}')
        wait_until(lambda: "the configuration was reloaded from dragoman.toml" in log.read_text())
        assert process.poll() is None


@WORKERS
def test_a_signal_that_comes_while_it_starts_is_heeded_later(tmp_path: Path, workers: str):
    """It listens already, and whoever waits for that may send one."""
    file = tmp_path / "dragoman.toml"
    file.write_text(OLD)
    with serving(tmp_path, "--workers", workers) as (url, process, _):
        file.write_text(NEW)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: status(url, "new-key-2") == 200)
        assert process.poll() is None


@WORKERS
def test_a_broken_file_keeps_the_old_configuration(tmp_path: Path, workers: str):
    file = tmp_path / "dragoman.toml"
    file.write_text(OLD)
    with serving(tmp_path, "--workers", workers) as (url, process, log):
        assert status(url, "old-key-1") == 200
        file.write_text('[server]\nkeys = ["new-key-2"]\nprot = 1\n')
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the old one stays in use" in log.read_text())
        assert "dragoman.toml:3: server.prot: Unknown key 'prot'. Did you mean 'port'?" in log.read_text()
        assert status(url, "old-key-1") == 200


@WORKERS
def test_a_change_of_the_file_is_noticed(tmp_path: Path, workers: str):
    file = tmp_path / "dragoman.toml"
    file.write_text(f"{OLD}reload = true\n")
    with serving(tmp_path, "--workers", workers) as (url, _, log):
        assert status(url, "new-key-2") == 401
        new = tmp_path / "new.toml"
        new.write_text(f"{NEW}reload = true\ngrace = 7\n")
        new.replace(file)
        wait_until(lambda: status(url, "new-key-2") == 200)
        wait_until(lambda: "a change of grace needs a restart" in log.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 needs no setup there")
@pytest.mark.parametrize("trigger", ["signal", "watch"])
@WORKERS
def test_a_reload_opens_no_gateway(tmp_path: Path, workers: str, trigger: str):
    """127.0.0.2 stands for a public address: without keys, no gateway starts there."""
    file = tmp_path / "dragoman.toml"
    whole = f'{OLD}host = "127.0.0.2"\nreload = {"true" if trigger == "watch" else "false"}\n'
    file.write_text(whole)
    with serving(tmp_path, "--workers", workers) as (url, process, log):
        assert (status(url, "old-key-1"), status(url)) == (200, 401)
        for count, text in enumerate(("", "[server]\n", whole.replace(OLD, "[server]\n"), "# nothing\n"), 1):
            file.write_text(text)
            if trigger == "signal":
                process.send_signal(signal.SIGHUP)
            wait_until(lambda count=count: log.read_text().count("stays in use") >= count)
            assert (status(url, "old-key-1"), status(url), status(url, "other")) == (200, 401, 401)
        assert "was reloaded" not in log.read_text()


class Load:
    """Clients that send one request after another on connections that they keep open."""

    def __init__(self, url: str, clients: int = 4) -> None:
        self.answered, self.problems = 0, list[str]()
        self._host = url.removeprefix("http://")
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def _run(self) -> None:
        body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "hello"}]})
        connection = http.client.HTTPConnection(self._host, timeout=60)
        while not self._ending.is_set():
            try:
                connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                reply = connection.getresponse()
                text = reply.read()
                if reply.status != 200:
                    self.problems.append(f"{reply.status} {text!r}")
                self.answered += 1
            except (OSError, http.client.HTTPException) as error:
                self.problems.append(repr(error))
                connection.close()
            time.sleep(0.005)  # so that some connections are idle at any moment
        connection.close()

    @contextmanager
    def running(self) -> Iterator["Load"]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            for thread in self._threads:
                thread.join()


@WORKERS
def test_a_successor_takes_over_and_no_request_is_lost(tmp_path: Path, workers: str):
    with serving(tmp_path, "--workers", workers) as (url, process, log), Load(url).running() as load:
        stream = ask(url, "tell me something [[fault: slow]]", stream=True)
        stream.readline()
        process.send_signal(signal.SIGUSR2)
        assert process.wait(60) == 0
        (successor,) = re.findall(r"process (\d+) has taken over", log.read_text())
        try:
            assert stream.read().rstrip().endswith(b'data: {"type":"message_stop"}')
            before = load.answered
            wait_until(lambda: load.answered > before + 20)
            assert load.problems == []
        finally:
            os.kill(int(successor), signal.SIGTERM)
        wait_until(lambda: log.read_text().count("dragoman stopped") == 2)


def test_a_successor_that_does_not_start_changes_nothing(tmp_path: Path):
    file = tmp_path / "dragoman.toml"
    file.write_text(OLD)
    with serving(tmp_path) as (url, process, log):
        assert status(url, "old-key-1") == 200
        file.write_text("[nonsense]\n")
        process.send_signal(signal.SIGUSR2)
        wait_until(lambda: "the successor did not start; this process goes on" in log.read_text())
        assert status(url, "old-key-1") == 200


def test_systemd_passes_its_socket(tmp_path: Path):
    log = tmp_path / "serve.log"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        passing = (
            f"import os, sys; os.dup2({listener.fileno()}, 3); "
            "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        for _ in range(2):  # the socket outlives the process: clients wait between the two
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, "-c", passing, *PROGRAM, "serve", "--port", "1"],
                    cwd=tmp_path, env=surroundings(), stdout=out, stderr=subprocess.STDOUT,
                    pass_fds=(listener.fileno(),),
                )  # fmt: skip
            try:
                assert ask(f"http://127.0.0.1:{port}", "hello")["type"] == "message"
                assert address(log, process) == f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
                assert process.wait(60) == 0


def test_an_inherited_socket_beyond_loopback_needs_keys(monkeypatch: pytest.MonkeyPatch):
    """systemd and a predecessor pass sockets that were bound without a look at `server.host`."""
    for family, host, keys, allowed in (
        (socket.AF_INET, "127.0.0.2", (), False),
        (socket.AF_INET, "127.0.0.2", ("key-a",), True),
        (socket.AF_INET, "127.0.0.1", (), True),
    ):
        listener = socket.socket(family)
        listener.bind((host, 0))
        monkeypatch.setattr(serve, "inherit_socket", lambda listener=listener: listener)
        with listener:
            if allowed:
                assert serve.bind(Config(keys=keys)) is listener
            else:
                with pytest.raises(ConfigError, match="the address of the inherited socket"):
                    serve.bind(Config(keys=keys))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_drains_before_it_ends(tmp_path: Path, workers: str) -> None:
    """A balancer is told to go elsewhere while everything is still served; a second signal ends that."""
    (tmp_path / "dragoman.toml").write_text("[server]\ndrain = 86400\n")
    with serving(tmp_path, "--workers", workers) as (url, process, _):
        assert readiness(url) == 200  # it serves, so it takes signals
        process.terminate()
        wait_until(lambda: readiness(url) == 503)
        assert status(url) == 200
        process.terminate()
        assert process.wait(60) == 0


def readiness(url: str) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()
