"""Without an extra, commands and imports name the command that installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from dragoman.core.optional import install_command

BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
EXTRAS = {
    "pyarrow",
    "httptools",
    "prometheus_client",
    "mcp",
    "asyncpg",
    "opentelemetry",
    "rich",
    "uvloop",
    "websockets",
}


def python(code: str, blocked: set[str] = EXTRAS, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(blocked=blocked) + code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environ},
    )


COMMANDS = {
    "serve": ("serve", "gateway"),
    "models": ("models", "client"),
    "run": ("run claude", "gateway"),
    "mcp": ("mcp", "mcp"),
    "ask": ("ask hi --model demo:any", "client"),
    "dataset": ("dataset report rows.jsonl", "datasets"),
}


@pytest.mark.parametrize("words, extra", COMMANDS.values(), ids=COMMANDS)
def test_a_command_names_its_extra(words: str, extra: str) -> None:
    ran = python(f"from dragoman.cli import main\nsys.argv = ['dragoman', *{words.split()}]\nmain()")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert install_command(extra) in ran.stderr


def test_the_gateway_extra_is_named_for_the_gateway_only_modules_too() -> None:
    ran = python(
        "from dragoman.cli import main\nsys.argv = ['dragoman', 'serve']\nmain()", {"prometheus_client"}
    )
    assert ran.stderr == f"dragoman: prometheus_client is not installed: {install_command('gateway')}\n"


@pytest.mark.parametrize(
    "statement, extra",
    [
        ("import dragoman.toolkit", "client"),
        ("from dragoman import run", "client"),
        ("from dragoman.gateway.app import Gateway", "gateway"),
        ("from dragoman.datasets import translate", "datasets"),
    ],
)
def test_an_import_names_its_extra(statement: str, extra: str) -> None:
    ran = python(statement)
    assert ran.stderr.rstrip().endswith(install_command(extra))
    assert python(f"try:\n    {statement}\nexcept ImportError:\n    print('caught')").stdout == "caught\n"


def test_ray_is_named() -> None:
    ran = python("import dragoman.datasets.ray", {"ray"})
    assert ran.stderr.rstrip().endswith(install_command("ray"))


def test_every_module_can_be_imported_where_there_is_no_posix() -> None:
    """Windows has none of these modules. Ray itself looks for those of its platform."""
    code = (
        "import pkgutil, importlib, dragoman\n"
        "for module in pkgutil.walk_packages(dragoman.__path__, 'dragoman.'):\n"
        "    if module.name.rpartition('.')[2] not in ('__main__', 'ray'):\n"
        "        importlib.import_module(module.name)"
    )
    ran = python(code, {"fcntl", "resource", "pwd", "grp", "termios", "uvloop"})
    assert ran.returncode == 0, ran.stderr


def test_translate_works_without_extras() -> None:
    words = "translate request --from anthropic --to gemini -"
    code = f"from dragoman.cli import main\nsys.argv = ['dragoman', *{words.split()}]\n"
    code += (
        "sys.stdin = __import__('io').TextIOWrapper(__import__('io').BytesIO(b'{\"messages\": []}'))\nmain()"
    )
    assert "contents" in python(code).stdout


@pytest.mark.parametrize("words", ["demo", "protocols", "check", "--help"])
def test_the_rest_works_without_extras(words: str) -> None:
    ran = python(f"from dragoman.cli import main\nsys.argv = ['dragoman', '{words}']\nmain()")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_traces_without_their_extra_are_reported() -> None:
    ran = python(
        "from dragoman.gateway.config import Config\n"
        "from dragoman.gateway.observability.access_log import AccessLog\n"
        "AccessLog.of(Config()).close()",
        {"opentelemetry"},
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318",
    )
    assert ran.returncode == 0, ran.stderr
    assert install_command("otel") in ran.stderr


CLONE = '{"dir_info": {%s}, "url": "%s"}'
# where it was installed from, as pip writes it (PEP 610), and what adds an extra to that
SOURCES = {
    "the index": (None, "'dragoman[otel]'"),
    "a clone": (CLONE % ("", "file:///src/dragoman%20of%20mine"), "'/src/dragoman of mine[otel]'"),
    "a clone, editable": (CLONE % ('"editable": true', "file:///src/dragoman"), "-e '/src/dragoman[otel]'"),
    "the clone that one stands in": (CLONE % ("", Path.cwd().as_uri()), "'.[otel]'"),
    "a wheel": (
        '{"archive_info": {}, "url": "file:///d/dragoman.whl"}',
        "'dragoman[otel] @ file:///d/dragoman.whl'",
    ),
    "a repository": (
        '{"vcs_info": {"vcs": "git", "commit_id": "ab12"}, "url": "https://git.example/dragoman"}',
        "'dragoman[otel] @ git+https://git.example/dragoman@ab12'",
    ),
}


@pytest.mark.parametrize("origin, requirement", SOURCES.values(), ids=SOURCES)
@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX")
def test_an_extra_is_installed_from_where_dragoman_came(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, requirement: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return origin if name == "direct_url.json" else None

    monkeypatch.setattr(metadata, "distribution", lambda name: Installed())
    assert install_command("otel") == f"python -m pip install {requirement}"


def test_without_an_installation_the_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    monkeypatch.chdir("/")
    clone = Path(__file__).parents[2]
    assert install_command("otel") == f"python -m pip install '{clone}[otel]'"
