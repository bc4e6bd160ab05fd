"""The program around the commands: help, version, lazy loading, and errors in one line."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import dragoman
from dragoman.cli import COMMANDS, main
from dragoman.protocols import upstream_names


def run(*arguments: str, stdin: bytes = b""):
    return CliRunner().invoke(main, list(arguments), input=stdin)


def test_version_is_the_library_s():
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"dragoman {dragoman.__version__}\n")


def test_alone_it_says_what_comes_next():
    result = run()
    assert result.exit_code == 0
    assert "What you can do next:\n  dragoman demo" in result.stdout


def test_help_lists_every_command():
    result = run("--help")
    assert result.exit_code == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)
    assert "Examples:" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: main {name} [OPTIONS]")


@pytest.mark.parametrize("name", ["dataset", "import"])
def test_a_group_alone_shows_its_commands(name: str):
    result = run(name)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0].startswith(f"Usage: main {name} [OPTIONS] COMMAND")


def test_every_protocol_and_dialect_is_listed():
    result = run("protocols")
    assert result.exit_code == 0
    listed = [line.split() for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [name for name, *_ in listed] == [*upstream_names(), *dragoman.dialects()]
    assert all(len(about) > 1 for _, *about in listed)
    assert "POST /v1/messages" in result.stdout


USAGE = {
    "unknown command": (("serf",), "'serf'"),
    "unknown option": (("demo", "--loud"), "--loud"),
    "unknown protocol": (("demo", "--to", "telex"), "'telex'"),
    "unknown dialect": (
        ("translate", "request", "--from", "gemini", "--to", "gemini", "--dialect", "scots"),
        "'scots'",
    ),
    "nothing to translate": (("translate",), "request|response|stream|tools"),
    "no source": (("translate", "request", "--to", "gemini"), "--from"),
    "no such file": (("translate", "request", "--from", "gemini", "--to", "gemini", "nowhere"), "nowhere"),
    "a directory": (("translate", "request", "--from", "gemini", "--to", "gemini", "."), "'.'"),
    "request for a request": (
        ("translate", "request", "--from", "gemini", "--to", "gemini", "--request", __file__),
        "--request",
    ),
    "model for a response": (
        ("translate", "response", "--from", "gemini", "--to", "gemini", "--model", "m"),
        "--model",
    ),
    "stream for a response": (
        ("translate", "response", "--from", "gemini", "--to", "gemini", "--no-stream"),
        "--stream",
    ),
    "path of a response": (
        ("translate", "response", "--from", "gemini", "--to", "gemini", "--show-path"),
        "--show-path",
    ),
}


@pytest.mark.parametrize("arguments, named", USAGE.values(), ids=USAGE)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: tuple[str, ...], named: str):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert "--help" in result.stderr


def test_starting_loads_no_command_and_no_protocol():
    check = (
        "import sys, dragoman.cli; "
        "print([m for m in sys.modules if m.startswith(('rich', 'dragoman.cli.', 'dragoman.protocols.'))])"
    )
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
