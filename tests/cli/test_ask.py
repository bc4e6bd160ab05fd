"""`dragoman ask` with the demo model: answers, tools, questions at a terminal, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.cli.screen import described, visible

ROOT = Path(__file__).parents[2]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
ASK = [sys.executable, "-m", "dragoman", "ask"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("the notes\n")
    return tmp_path


def ask(*arguments: str, given: str = ""):
    return CliRunner().invoke(main, ["ask", *arguments, "--model", "demo:any"], input=given)


def test_an_answer_goes_to_stdout():
    result = ask("Good morning")
    assert result.exit_code == 0
    assert result.stdout.endswith("\n")
    assert result.stdout.strip()
    assert result.stderr == ""


def test_the_prompt_may_come_from_stdin():
    assert ask("-", given="Good morning").stdout == ask("Good morning").stdout


def test_what_reads_runs_without_a_question(project: Path):
    result = ask("Please read notes.txt", "--tool", "read_file", "--root", str(project))
    assert result.exit_code == 0
    assert "the notes" in result.stdout
    assert result.stderr.startswith("→ read_file\n  absolute_path: notes.txt\n✓ read_file · ")


def test_nobody_there_means_no(project: Path):
    result = ask("Please run ls", "--tool", "run_shell_command", "--root", str(project))
    assert "there is no terminal to confirm it" in result.stderr
    assert "notes.txt" not in result.stdout


def test_yes_runs_it(project: Path):
    result = ask("Please run ls", "--tool", "run_shell_command", "--root", str(project), "--yes")
    assert "Output: notes.txt" in result.stdout


def test_a_limit_is_an_error(project: Path):
    result = ask("Please read notes.txt", "--tool", "read_file", "--root", str(project), "--max-turns", "1")
    assert result.exit_code == 1
    assert "stopped before the answer: turns" in result.stderr


WRONG = {
    "no tool": (("hi", "--tool", "none"), 2, "there is no tool 'none'; the tools are: run_shell_command, "),
    "no root": (("hi", "--tool", "all", "--root", "nowhere"), 1, "nowhere is not a directory"),
    "no command": (("hi", "--mcp", "name="), 2, "a URL or a command is missing"),
    "an open quote": (("hi", "--mcp", "name='a"), 2, "No closing quotation"),
}


@pytest.mark.parametrize("arguments, code, text", WRONG.values(), ids=WRONG)
def test_mistakes_are_told_in_a_line(arguments: tuple[str, ...], code: int, text: str):
    result = ask(*arguments)
    assert result.exit_code == code
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def _at_a_terminal(project: Path) -> tuple[subprocess.Popen[bytes], int]:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [*ASK, "Please run ls", "--model", "demo:any", "--tool", "run_shell_command"]
    process = subprocess.Popen(
        [*command, "--root", str(project)],
        env=ENVIRON,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    return process, ours


ANSWERS = {"y\n": ("Output: notes.txt", 0), "n\n": ("the user refused", 0), "\n": ("the user refused", 0)}


@pytest.mark.parametrize("answer, expected", ANSWERS.items(), ids=["yes", "no", "neither"])
def test_what_changes_things_is_asked_about(answer: str, expected: tuple[str, int], project: Path):
    process, terminal = _at_a_terminal(project)
    os.write(terminal, answer.encode())
    output, error = process.communicate(timeout=30)
    os.close(terminal)
    assert b"Run run_shell_command? [y/N]:" in error
    assert expected[0] in output.decode()
    assert process.returncode == expected[1]


def test_ctrl_c_at_the_question_ends_it(project: Path):
    process, terminal = _at_a_terminal(project)
    assert process.stderr
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(process.stderr.fileno(), 1000)
    time.sleep(0.5)  # Python shows the question a moment before it listens for the answer
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    os.close(terminal)
    assert process.returncode == 130
    assert b"Traceback" not in error


def test_ctrl_c_ends_what_runs(project: Path):
    """The tool, an MCP server's, never comes back by itself; its process goes with ours."""
    pytest.importorskip("mcp")
    server = project / "server.py"
    server.write_text(
        "import asyncio, os, pathlib\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('slow')\n"
        "@server.tool()\n"
        "async def weather() -> str:\n"
        f"    pathlib.Path({str(project / 'pid')!r}).write_text(str(os.getpid()))\n"
        "    await asyncio.sleep(600)\n"
        "server.run('stdio')\n"
    )
    command = [*ASK, "How is the weather?", "--model", "demo:any", "--yes"]
    process = subprocess.Popen(
        [*command, "--mcp", f"slow={sys.executable} {server}"],
        env=ENVIRON,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for _ in range(300):
        if (project / "pid").exists() and (project / "pid").read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert b"Traceback" not in error
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)


def test_control_characters_are_shown_not_obeyed():
    assert visible("a\x1b[2Kb\r\nc\td\u202e") == "a\\x1b[2Kb\nc\td\\x202e"
    call = {"function": {"name": "x", "arguments": '{"command": "rm -rf x\\u001b[8m\\nls", "n": 1}'}}
    assert described(call) == ["command: rm -rf x\\x1b[8m\n    ls", "n: 1"]
    assert described({"function": {"name": "x", "arguments": "{broken"}}) == ["{broken"]
