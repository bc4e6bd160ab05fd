"""The balancers of deploy/, with the addresses of a test's machines."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gateway.plain import send

DEPLOY = Path(__file__).parents[2] / "deploy"


class Balancer(Protocol):
    """`gateways`: the address of each, by its name. `bind`: the balancer's own."""

    def __init__(self, folder: Path, bind: str, gateways: Mapping[str, str]) -> None: ...
    def command(self) -> list[str]: ...
    def states(self) -> dict[str, str]:
        """UP or DOWN for each gateway, empty while the balancer does not run."""
        ...


class HaProxy:
    """It asks the gateways itself, and says what it thinks of each."""

    program = "haproxy"

    def __init__(self, folder: Path, bind: str, gateways: Mapping[str, str]) -> None:
        self._folder = folder
        text = (DEPLOY / "haproxy.cfg").read_text().replace("bind :8080", f"bind {bind}")
        text = text.replace("maxconn 20000", "maxconn 500")  # of which each takes two open files
        text = re.sub(r"server (g\d) \S+", lambda found: f"server {found[1]} {gateways[found[1]]}", text)
        text = text.replace("global\n", f"global\n    stats socket {folder}/haproxy.sock\n", 1)
        lines = [line for line in text.splitlines() if " log " not in line and "option httplog" not in line]
        (folder / "haproxy.cfg").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [shutil.which(self.program) or self.program, "-q", "-db", "-f", f"{self._folder}/haproxy.cfg"]

    def states(self) -> dict[str, str]:
        if not (self._folder / "haproxy.sock").exists():
            return {}
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self._folder / "haproxy.sock"))
            asking.sendall(b"show stat\n")
            text = b"".join(iter(lambda: asking.recv(65536), b"")).decode()
        rows = [line.split(",") for line in text.splitlines() if line.startswith("gateways,g")]
        return {row[1]: row[17].split()[0] for row in rows}


class Nginx:
    """It finds out which gateway can be reached with a request, so what a gateway says itself is asked."""

    program = "nginx"

    def __init__(self, folder: Path, bind: str, gateways: Mapping[str, str]) -> None:
        self._folder, self._bind, self._gateways = folder, bind, gateways
        text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen {bind}")
        text = text.replace("/var/log/nginx", str(folder))
        first, *_ = servers = re.findall(r"^ *server 127\S+ .*\n", text, re.MULTILINE)
        ours = "".join(re.sub(r"127\S+", address, first) for address in gateways.values())
        (folder / "dragoman.conf").write_text(text.replace("".join(servers), ours))
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
        (folder / "nginx.conf").write_text(
            f"user root;\ndaemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
            f"http {{ {folders} include dragoman.conf; }}\n"
        )

    def command(self) -> list[str]:
        program = shutil.which(self.program) or self.program
        return [program, "-p", str(self._folder), "-c", "nginx.conf", "-e", f"{self._folder}/error.log"]

    def states(self) -> dict[str, str]:
        if not _is_ready(self._bind, "/metrics", 404):
            return {}
        ready = {name: _is_ready(address, "/readyz", 200) for name, address in self._gateways.items()}
        return {name: "UP" if up else "DOWN" for name, up in ready.items()}


BALANCERS: dict[str, type[HaProxy | Nginx]] = {"haproxy": HaProxy, "nginx": Nginx}


def _is_ready(address: str, path: str, status: int) -> bool:
    try:
        return send(f"http://{address}", "GET", path).status == status
    except (OSError, http.client.HTTPException):
        return False
