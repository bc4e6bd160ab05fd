"""Ways out of the root, and out of all bounds, are tried and refused."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from dragoman.toolkit import Limits, standard_tools
from dragoman.toolkit.process import environment
from waiting import NEVER, finish, wait_until

WAYS_OUT = {
    "up": "../outside/secret.txt",
    "up through a directory": "src/../../outside/secret.txt",
    "absolute": "OUTSIDE/secret.txt",
    "by a linked directory": "way out/secret.txt",
    "by a linked file": "file out",
    "through a link inside": "inner/../../outside/secret.txt",
    "a neighbour with the same beginning": "ROOT-2/secret.txt",
    "the system": "/etc/hostname",
}
BY_PATH = {
    "read_file": lambda path: {"absolute_path": path},
    "write_file": lambda path: {"file_path": path, "content": "changed"},
    "replace": lambda path: {"file_path": path, "old_string": "secret", "new_string": "changed"},
    "search_file_content": lambda path: {"pattern": ".", "path": path},
    "view_image": lambda path: {"path": path},
}


def _placed(path: str, root: Path, outside: Path) -> str:
    return path.replace("OUTSIDE", str(outside)).replace("ROOT", str(root))


@pytest.fixture
def neighbour(root: Path) -> Path:
    folder = root.with_name(f"{root.name}-2")
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize("path", WAYS_OUT.values(), ids=WAYS_OUT)
@pytest.mark.parametrize("name", BY_PATH)
def test_no_path_leads_out(name: str, path: str, root: Path, outside: Path, use):
    found = use(name, **BY_PATH[name](_placed(path, root, outside)))
    assert found.failed
    assert "is outside of" in found.text
    assert (outside / "secret.txt").read_text() == "TODO secret"


@pytest.mark.parametrize("path", WAYS_OUT.values(), ids=WAYS_OUT)
def test_many_files_stay_inside(path: str, root: Path, outside: Path, use):
    assert "TODO secret" not in use("read_many_files", paths=[_placed(path, root, outside)]).text


@pytest.mark.parametrize(
    "pattern", ["*/*", "**/*", "../**/*", "way out/*", "file*", "*/../../outside/*", "/etc/host*"]
)
def test_no_pattern_leads_out(pattern: str, use):
    assert "secret" not in use("read_many_files", paths=[pattern]).text


@pytest.mark.parametrize("folder", ["..", "way out", "/", "inner/../.."])
def test_no_command_starts_outside(folder: str, use):
    assert "is outside of" in use("run_shell_command", command="ls", directory=folder).text
    assert "is outside of" in use("shell", command=["ls"], workdir=folder).text


@pytest.mark.parametrize("ripgrep", [None, ""], ids=["ripgrep", "python"])
def test_a_search_follows_no_link(ripgrep: str | None, use):
    assert "secret" not in use("search_file_content", {"ripgrep": ripgrep}, pattern="TODO").text


def test_a_path_is_no_command(root: Path, use):
    use("search_file_content", pattern="x", path="src; touch hacked")
    use("search_file_content", pattern="x", include="$(touch hacked)")
    use("run_shell_command", command="true", directory="src; touch hacked")
    use("write_file", file_path="$(touch hacked)", content="a")
    assert not list(root.rglob("hacked"))
    assert (root / "$(touch hacked)").read_text() == "a"


def test_a_new_file_does_not_follow_a_dangling_link(root: Path, outside: Path, use):
    (root / "dangling").symlink_to(outside / "new.txt")
    assert use("write_file", file_path="dangling", content="x").failed
    assert not (outside / "new.txt").exists()


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a directory": ("read_file", {"absolute_path": "src"}, "Refused: src is a directory"),
    "the root": ("write_file", {"file_path": ".", "content": ""}, "Refused: . is a directory"),
    "nothing": ("read_file", {"absolute_path": "none"}, "Refused: none: No such file or directory"),
    "a NUL": ("read_file", {"absolute_path": "a\0b"}, "Refused: a path has no NUL"),
    "a loop": ("read_file", {"absolute_path": "loop"}, "Refused: loop: Too many levels of symbolic links"),
    "a pipe": ("read_file", {"absolute_path": "pipe"}, "Refused: pipe is not a regular file"),
    "a program as a file": (
        "read_file",
        {"absolute_path": "a.out"},
        "Refused: a.out is binary (application/octet-stream, 4 bytes) and cannot be shown as text",
    ),
    "text that is not there": (
        "replace",
        {"file_path": "src/a.ts", "old_string": "none", "new_string": ""},
        "Refused: src/a.ts: expected 1 occurrence, found 0",
    ),
    "text that is there twice": (
        "replace",
        {"file_path": "src/a.ts", "old_string": "o", "new_string": ""},
        "Refused: src/a.ts: expected 1 occurrence, found 2",
    ),
    "no text": (
        "replace",
        {"file_path": "src/a.ts", "old_string": "", "new_string": ""},
        "Refused: old_string is empty: write_file writes a whole file",
    ),
    "a text as an image": ("view_image", {"path": "README.md"}, "Refused: README.md is not an image"),
    "a command line for a program": (
        "shell",
        {"command": "ls"},
        "Refused: command is an array: the program and its arguments",
    ),
    "a program that is not there": (
        "shell",
        {"command": ["no-such-program"]},
        "Refused: no-such-program: No such file or directory",
    ),
    "no search backend": (
        "google_web_search",
        {"query": "x"},
        "Refused: no search backend is configured: use standard_tools(root, search=…)",
    ),
}


@pytest.mark.parametrize("name, arguments, text", REFUSED.values(), ids=REFUSED)
def test_refusals_say_why(name: str, arguments: dict[str, Any], text: str, root: Path, use):
    (root / "loop").symlink_to("loop")
    (root / "a.out").write_bytes(b"a\0b\n")
    os.mkfifo(root / "pipe")
    found = use(name, **arguments)
    assert found.failed
    assert found.text == text


SMALL = {"limits": Limits(seconds=30, output=100, file=1000, matches=3, files=2)}
BRIEF = {"limits": Limits(seconds=2)}


def test_long_output_is_cut_in_the_middle(use):
    text = use("run_shell_command", SMALL, command="echo begin; seq 10000; echo end").text
    assert "Output: begin\n" in text
    assert "end\nError: (none)" in text
    assert "bytes left out …]" in text
    assert len(text) < 300


def test_a_long_file_is_given_in_pieces(root: Path, use):
    (root / "long.txt").write_text("".join(f"line {n}\n" for n in range(50)))
    text = use("read_file", SMALL, absolute_path="long.txt").text
    assert text.endswith("[lines 1 to 13 of 50; go on with offset=13]")
    assert use("read_file", SMALL, absolute_path="long.txt", offset=13).text.startswith("line 13\n")


def test_a_long_line_is_cut(root: Path, use):
    (root / "wide.txt").write_text("x" * 900)
    text = use("read_file", SMALL, absolute_path="wide.txt").text
    assert "[… 800 bytes left out …]" in text


def test_sizes_are_bounded(root: Path, use):
    (root / "big.txt").write_text("x" * 1001)
    assert "at most 1000 are read" in use("read_file", SMALL, absolute_path="big.txt").text
    assert "at most 1000 are written" in use("write_file", SMALL, file_path="n", content="x" * 1001).text
    grown = use("replace", SMALL, file_path="README.md", old_string="sample", new_string="x" * 1000)
    assert "at most 1000 are written" in grown.text
    assert "[1 more files were not read]" in use("read_many_files", SMALL, paths=["src"]).text


def test_time_is_bounded_and_nothing_is_left_behind(root: Path, use):
    command = f"echo a; sleep {NEVER} & echo $! > job; sleep {NEVER}"
    text = finish(use, "run_shell_command", BRIEF, command=command).text
    assert "Output: a\n" in text
    assert text.endswith("Error: [ended after 2 s]\nExit Code: 124")
    wait_until(lambda: not is_alive(root / "job"))


def is_alive(file: Path) -> bool:
    """Whether the process whose number is in `file` runs."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{file.read_text().strip()}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("session", ["", "setsid"])
def test_a_job_in_the_background_holds_nothing_up(session: str, root: Path, use):
    command = f"{session} sh -c 'echo $$ > job; exec sleep {NEVER}' & until [ -s job ]; do :; done; echo a"
    try:
        assert "Output: a\n" in finish(use, "run_shell_command", command=command).text
    finally:
        with suppress(ProcessLookupError):  # one with a session of its own may go on
            os.kill(int((root / "job").read_text()), signal.SIGKILL)


def test_a_cancelled_command_ends(root: Path):
    (shell,) = (tool for tool in standard_tools(root) if tool.name == "run_shell_command")

    async def cancelled() -> None:
        task = asyncio.create_task(shell.acall({"command": f"echo $$ > job; sleep {NEVER}"}))
        while not (root / "job").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    wait_until(lambda: not is_alive(root / "job"))


def test_a_command_that_is_cancelled_while_it_starts_ends(root: Path):
    (shell,) = (tool for tool in standard_tools(root) if tool.name == "run_shell_command")

    async def cancelled(steps: int) -> None:
        task = asyncio.create_task(shell.acall({"command": f"echo $$ >> jobs; sleep {NEVER}"}))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)

    for steps in range(12):
        asyncio.run(cancelled(steps))
    jobs = root / "jobs"
    for number in jobs.read_text().split() if jobs.exists() else ():
        (root / "job").write_text(number)
        wait_until(lambda: not is_alive(root / "job"))


def test_a_pattern_that_never_ends_is_ended(root: Path, use):
    (root / "as.txt").write_text("a" * 40 + "b")
    found = use("search_file_content", {**BRIEF, "ripgrep": ""}, pattern="(a+)+$")
    assert found.failed
    assert "the search took more than 2 s" in found.text


def test_commands_get_no_keys(use, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    monkeypatch.setenv("GH_TOKEN", "ghp-secret")
    monkeypatch.setenv("MONKEYS", "allowed")
    text = use("run_shell_command", command="env").text
    assert "secret" not in text
    assert "MONKEYS=allowed" in text


HIDDEN = [
    "OPENAI_API_KEY",
    "DRAGOMAN_SERVER__KEYS",
    "DRAGOMAN_STORE__URL",
    "PGPASSWORD",
    "MYSQL_PWD",
    "GITHUB_PAT",
    "API_KEYS",
    "SECRETS",
    "TOKENS",
    "ANTHROPIC_AUTH_TOKEN",
    "JWT",
    "NPM_CONFIG__AUTH",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "SLACK_WEBHOOK",
    "SLACK_WEBHOOK_URL",
    "STRIPE_SK",
    "CI_JOB_JWT",
    "CI_JOB_JWT_V2",
    "DOCKER_AUTH_CONFIG",
    "PASSPHRASE",
    "DB_PASS",
    "ACCESSKEY",
    "apikey",
    "SENTRY_DSN",
    "AWS_SECRET_ACCESS_KEY",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_CONNECTION_STRING",
    "BASIC_CREDS",
    "SESSION_COOKIE",
    "COOKIE",
    "BEARER",
    "WALLET_MNEMONIC",
    "DEPLOY_PEM",
]
SECRET_VALUES = [
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "ghp_" + "a" * 36,
    "sk-proj-" + "a" * 40,
]
SHOWN = ["PATH", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "LANG", "KEYBOARD", "MONKEYS", "XAUTHORITY"]


def test_which_variables_commands_see():
    urls = {"DATABASE_URL": "postgres://u:secret@h/d", "HTTP_PROXY": "http://proxy:3128"}
    values = {f"X{i}": value for i, value in enumerate(SECRET_VALUES)}
    seen = environment(dict.fromkeys([*HIDDEN, *SHOWN], "x") | urls | values)
    assert sorted(seen) == sorted([*SHOWN, "HTTP_PROXY"])


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    "name, arguments",
    [("run_shell_command", {"command": "ls\0x"}), ("shell", {"command": ["ls", "\0"]})],
    ids=["a command", "a word"],
)
def test_a_nul_byte_is_refused(loop, name: str, arguments: dict[str, Any], root: Path):
    """uvloop cuts the word there and runs what is left."""
    tools = {tool.name: tool for tool in standard_tools(root)}
    with asyncio.Runner(loop_factory=loop) as runner:
        found = runner.run(tools[name].acall(arguments))
    assert found.failed
    assert "NUL" in found.text
