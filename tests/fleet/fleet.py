"""Three gateways, a balancer PostgreSQL and a model, each on a machine of its own."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from cli.gateways import PROGRAM, surroundings
from dragoman.core import jsontext
from fleet.balancers import BALANCERS
from fleet.namespaces import EDGE, Machines, NotAllowed
from gateway.canned import provider
from gateway.conversations.servers import Server
from gateway.jobs.upstreams import HeldModel
from gateway.plain import Got, send
from gateway.stands import CLIENT_KEY
from waiting import NEVER, wait_until

NAMES = ("g1", "g2", "g3")
ADDRESSES = {
    EDGE: "10.77.0.1",
    "g1": "10.77.0.11",
    "g2": "10.77.0.12",
    "g3": "10.77.0.13",
    "db": "10.77.0.20",
}
PORT, MODEL_PORT, BALANCER_PORT = 8787, 9000, 8080
ADMIN_KEY, NARROW_KEY, POOR_KEY = "admin-key-3", "narrow-key-4", "poor-key-5"


class FleetModel(HeldModel):
    """`accounts`: the key that each prompt came with."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: list[str] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.accounts.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await super().__call__(scope, receive, send)


class Fleet:
    """`url`: the balancer's. `gateways`: the running processes by name."""

    def __init__(self, folder: Path, machines: Machines, balancer: str) -> None:
        self.machines, self.model = machines, FleetModel()
        gateways = {name: f"{ADDRESSES[name]}:{PORT}" for name in NAMES}
        self.balancer = BALANCERS[balancer](folder, f"{ADDRESSES[EDGE]}:{BALANCER_PORT}", gateways)
        self.database = Server(folder / "db", ADDRESSES["db"])
        self.gateways: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"http://{ADDRESSES[EDGE]}:{BALANCER_PORT}"
        self._folder = folder

    def direct(self, name: str) -> str:
        return f"http://{ADDRESSES[name]}:{PORT}"

    def served_by(self, headers: Any) -> str:
        """HAProxy says its name, nginx the address, behind those that it could not reach."""
        said: str = headers["x-served-by"].rpartition(" ")[2].partition(":")[0]
        return {ADDRESSES[name]: name for name in NAMES}.get(said, said)

    @property
    def store(self) -> str:
        return self.database.url("postgres")

    def start_database(self) -> None:
        with self.machines.inside("db"):
            self.database.start()

    def start(self, name: str) -> None:
        """And wait until the balancer sends requests to it. Of one that was just killed it may still say so,
        therefore the gateway is asked itself first."""
        file = self._folder / "dragoman.toml"
        file.write_text(self._configuration())
        command = [*PROGRAM, "serve", "--config", str(file), "--host", ADDRESSES[name], "--port", str(PORT)]
        with self.machines.inside(name), (self._folder / f"{name}.log").open("ab") as log:
            self.gateways[name] = subprocess.Popen(
                command, cwd=self._folder, env=surroundings(), stdout=log, stderr=subprocess.STDOUT
            )
        wait_until(lambda: self._serves(name), f"{name} did not start")
        wait_until(lambda: self.balancer.states().get(name) == "UP", f"{name} is not noticed")

    def _serves(self, name: str) -> bool:
        try:
            return send(self.direct(name), "GET", "/healthz").status == 200
        except OSError:
            return False

    def kill(self, name: str) -> None:
        self.gateways[name].kill()
        self.gateways[name].wait()

    def restart(self, name: str) -> int:
        """As an operator does it; a word of the balancer ends the draining instead of a time. Gives the exit
        code of the old process."""
        process = self.gateways[name]
        process.terminate()
        wait_until(lambda: self.balancer.states()[name] == "DOWN", f"{name} is not drained")
        process.terminate()
        code = process.wait()
        self.start(name)
        return code

    def _configuration(self) -> str:
        """`drain` lasts until the second signal."""
        model = f"http://{ADDRESSES[EDGE]}:{MODEL_PORT}"
        up = provider("up", model)
        pool = f'[providers.pool]\nprotocol = "openai-chat"\nbase_url = "{model}/v1"\n'
        pool += 'api_keys = ["one", "two", "three"]\n'
        return (
            f'[server]\ndrain = {int(NEVER)}\nkeys = ["{CLIENT_KEY}"]\n[jobs]\ntakeover_seconds = 2\n'
            f'[keys.narrow]\nkey = "{NARROW_KEY}"\nconcurrency = 2\n'
            f'[keys.poor]\nkey = "{POOR_KEY}"\ntokens_per_day = 25\n'
            f'[inspector]\nenabled = true\nadmin_keys = ["{ADMIN_KEY}"]\n'
            f'[store]\nurl = "{self.store}"\n{up}{pool}'
        )


@contextmanager
def running_fleet(folder: Path, balancer: str) -> Iterator[Fleet]:
    """The caller's thread, and threads that it starts, are on the machine of the clients meanwhile. Raises
    NotAllowed or NoServer where it cannot be."""
    if not shutil.which(balancer):
        raise NotAllowed(f"{balancer} is not installed")
    machines = Machines(ADDRESSES)
    with ExitStack() as ends:
        ends.callback(machines.remove)
        machines.make()
        (folder / "db").mkdir()
        fleet = Fleet(folder, machines, balancer)
        ends.enter_context(machines.inside(EDGE))
        ends.enter_context(_model(fleet.model))
        ends.callback(fleet.database.stop)
        fleet.start_database()
        running = subprocess.Popen(fleet.balancer.command())
        ends.callback(running.wait)
        ends.callback(running.terminate)
        wait_until(lambda: fleet.balancer.states() or running.poll() is not None)
        assert running.poll() is None, f"{balancer} did not start"
        ends.callback(lambda: [fleet.kill(name) for name in fleet.gateways])
        for name in NAMES:
            fleet.start(name)
        yield fleet


@contextmanager
def _model(app: FleetModel) -> Iterator[None]:
    config = uvicorn.Config(app, host=ADDRESSES[EDGE], port=MODEL_PORT, log_level="critical", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive())
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        thread.join(60)


def chat(
    url: str,
    text: str,
    key: str = CLIENT_KEY,
    stream: bool = False,
    model: str = "up:m",
    headers: dict[str, str] | None = None,
) -> Got:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}
    return send(url, "POST", "/v1/chat/completions", jsontext.encode(body), headers, key)
