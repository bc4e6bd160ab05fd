"""`dragoman ask` with the demo model: answers, tools, questions at a terminal, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from dragoman import UserMessage, load_messages, run
from dragoman.cli import main
from dragoman.cli.schema_option import read_schema
from dragoman.cli.screen import Screen, list_arguments, visible
from dragoman.cli.session import search_tools
from dragoman.client import HostedCallEnd, HostedCallResult, HostedCallStart, TextDelta, TurnStart
from dragoman.core.model import Media
from waiting import wait_until

ROOT = Path(__file__).parents[2]
ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
ASK = [sys.executable, "-m", "dragoman", "ask", "--no-history"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("the notes\n")
    return tmp_path


def ask(*arguments: str, given: str = ""):
    return CliRunner().invoke(main, ["ask", *arguments, "--model", "demo:any", "--no-history"], input=given)


def program(*arguments: str, given: str = ""):
    return CliRunner().invoke(main, arguments, input=given)


def test_a_conversation_is_continued(home: Path):
    assert program("ask", "Good morning", "-m", "demo:any").exit_code == 0
    assert program("ask", "-c", "And now?").stdout == "You said: And now?\n"
    stored = list((home / "XDG_DATA_HOME/dragoman/chats").glob("*.json"))
    assert len(stored) == 1
    messages = load_messages(stored[0].read_text())
    assert [message.content for message in messages if isinstance(message, UserMessage)] == [
        "Good morning",
        "And now?",
    ]
    assert stored[0].stat().st_mode & 0o077 == 0
    listed = program("chat", "--list").stdout
    assert listed == f"{stored[0].stem}  Good morning\n"
    assert program("ask", "--conversation", stored[0].stem[:15], "Third").exit_code == 0


def test_nothing_to_continue(home: Path):
    result = program("ask", "-c", "And now?")
    assert result.exit_code == 1
    assert "no conversation yet" in result.stderr


def test_a_conversation_is_saved_to_a_file_and_continued_from_it(home: Path):
    assert program("ask", "One", "-m", "demo:any", "--no-history", "--save", "talk.json").exit_code == 0
    assert not (home / "XDG_DATA_HOME").exists()
    result = program("ask", "Two", "--conversation", "talk.json", "--system", "Be brief")
    assert result.exit_code == 0
    kinds = [type(message).__name__ for message in load_messages(Path("talk.json").read_text())]
    assert kinds == ["SystemMessage", "UserMessage", "AssistantMessage", "UserMessage", "AssistantMessage"]


SCHEMAS = {
    "short": "city, high int: in °C",
    "JSON": '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
    "a file": "schema.json",
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_answers_by_a_schema(schema: str, home: Path):
    Path("schema.json").write_text(SCHEMAS["JSON"])
    result = program("ask", "Oslo", "-m", "demo:any", "--schema", schema)
    assert result.exit_code == 0
    assert isinstance(json.loads(result.stdout)["city"], str)


def test_the_short_form_of_a_schema():
    assert read_schema("name, age int, tags str[]: a few") == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "a few"},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
    }


def test_attachments(home: Path):
    Path("dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    Path("notes.pdf").write_bytes(b"%PDF-1.4\n")
    arguments = (
        "ask",
        "Look",
        "-m",
        "demo:any",
        "--image",
        "dot.png",
        "--file",
        "notes.pdf",
        "--save",
        "out.json",
    )
    assert program(*arguments).exit_code == 0
    prompt = next(
        each for each in load_messages(Path("out.json").read_text()) if isinstance(each, UserMessage)
    )
    assert [part.kind for part in prompt.parts if isinstance(part, Media)] == ["image", "document"]


def test_usage_and_cost(home: Path):
    file = Path("dragoman.toml")
    file.write_text('[providers.demo.profiles."*"]\nprice = { input = 1000, output = 1000 }\n')
    result = CliRunner().invoke(
        main, ["ask", "Hi", "-m", "demo:any", "--usage"], env={"DRAGOMAN_CONFIG": str(file)}
    )
    assert re.fullmatch(r"\d+ tokens in, \d+ out, \$0\.0\d+\n", result.stderr)


def test_the_default_model(home: Path):
    result = program("ask", "Hi")
    assert result.stdout == "You said: Hi\n"
    assert result.stderr == "dragoman: No API key found. The built-in demo model answers.\n"
    assert program("models", "--default", "nobody:x").exit_code == 1
    assert program("models", "--default", "demo:mine").stdout == "default model: demo:mine\n"
    assert program("ask", "Hi", "--save", "out.json").stderr == ""
    assert json.loads(Path("out.json").read_text())["model"] == "demo:mine"
    assert CliRunner().invoke(main, ["ask", "Hi"], env={"DRAGOMAN_MODEL": "nobody:x"}).exit_code == 1


@pytest.mark.parametrize(
    ("name", "model"),
    [("small", "mine:x"), ("gpt-5", "mine:gpt-5"), ("claude-opus", "mine:opus"), ("mine:y", "mine:y")],
)
def test_names_patterns_and_providers_of_the_configuration(home: Path, name: str, model: str):
    file = Path("mine.toml")
    rows = 'small = "mine:x"\n"gpt-*" = "mine:*"\n"claude-*" = "mine:$1"\n'
    file.write_text(f'[providers.mine]\nprotocol = "gemini"\nbase_url = "demo:"\n[models]\n{rows}')
    arguments = ["ask", "Hi", "-m", name, "--save", "out.json"]
    result = CliRunner().invoke(main, arguments, env={"DRAGOMAN_CONFIG": str(file)})
    assert (result.stdout, result.stderr) == ("You said: Hi\n", "")
    assert json.loads(Path("out.json").read_text())["model"] == model


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
    "no tool": (("hi", "--tool", "none"), 2, "Unknown tool 'none'. Known: run_shell_command, "),
    "no root": (("hi", "--tool", "all", "--root", "nowhere"), 1, "nowhere is not a directory"),
    "no command": (("hi", "--mcp", "name="), 2, "a URL or a command is missing"),
    "an open quote": (("hi", "--mcp", "name='a"), 2, "No closing quotation"),
    "no image": (("hi", "--image", "nowhere.png"), 2, "There is no file nowhere.png"),
    "a wrong schema": (("hi", "--schema", "a thing"), 2, "'a thing' is no file, and no `name type"),
    "an open schema": (("hi", "--schema", "{"), 2, "expected a JSON object"),
}


@pytest.mark.parametrize("arguments, code, text", WRONG.values(), ids=WRONG)
def test_mistakes_are_reported_in_one_line(arguments: tuple[str, ...], code: int, text: str):
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
    output, error = process.communicate(timeout=120)
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
    _, error = process.communicate(timeout=120)
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
    wait_until(lambda: (project / "pid").exists() and (project / "pid").read_text())
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert b"Traceback" not in error
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)


def test_control_characters_are_shown_not_obeyed():
    assert visible("a\x1b[2Kb\r\nc\td\u202e") == "a\\x1b[2Kb\nc\td\\x202e"
    call = {"function": {"name": "x", "arguments": '{"command": "rm -rf x\\u001b[8m\\nls", "n": 1}'}}
    assert list_arguments(call) == ["command: rm -rf x\\x1b[8m\n    ls", "n: 1"]
    assert list_arguments({"function": {"name": "x", "arguments": "{broken"}}) == ["{broken"]


def test_progress_of_a_tool_is_shown(capsys: pytest.CaptureFixture[str]):
    def get_weather(city: str) -> Iterator[str]:
        """Get the weather."""
        yield "connecting \x1b[2J"
        yield "72"

    run("Weather in Rome?", "demo:any", [get_weather], on_event=Screen(markdown=False))
    assert "  connecting \\x1b[2J\n" in capsys.readouterr().err


def test_a_spinner_turns_while_the_model_is_silent(monkeypatch: pytest.MonkeyPatch):
    """From the request to the first event of the reply, and only in a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    screen = Screen(markdown=False)
    screen(TurnStart(1))
    assert screen._spinner
    screen(TextDelta("hi"))
    assert not screen._spinner
    screen(TurnStart(2))
    screen.end_line()  # a request that failed
    assert not screen._spinner
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    plain = Screen(markdown=False)
    plain(TurnStart(1))
    assert not plain._spinner


def test_hosted_calls_are_shown(capsys: pytest.CaptureFixture[str]):
    screen = Screen(markdown=False)
    call = HostedCallResult("1", "web_search", "web_search", {"query": "paris\x1b[2J"})
    screen(HostedCallStart(call))
    sources = ({"url": "https://e.org/p", "title": "Paris"},)
    screen(HostedCallEnd(replace(call, content="18 degrees", sources=sources)))
    screen(HostedCallEnd(replace(call, content="Error: the backend is down", failed=True)))
    shown = capsys.readouterr().err
    assert "→ web_search\n  query: paris\\x1b[2J\n" in shown
    assert "✓ web_search\n  Paris https://e.org/p\n" in shown
    assert "✗ web_search\n  Error: the backend is down\n" in shown


def test_the_search_is_that_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TAVILY_API_KEY", "a-key")
    assert [tool.settings.get("backend") for tool in search_tools()] == ["tavily", None]
    file = tmp_path / "dragoman.toml"
    file.write_text('[hosted.web_search]\nbackend = "searxng"\nurl = "http://127.0.0.1:1"\n')
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(file))
    assert search_tools()[0].settings["url"] == "http://127.0.0.1:1"


def test_search_at_a_model_without_one():
    """The demo has none, and no backend is named."""
    got = ask("Say hello", "--search")
    assert got.exit_code == 1
    assert "SEARXNG_URL" in got.stderr
