"""`dragoman chat` with the demo model, over a pipe and at a terminal; completion; Markdown as it grows."""

import io
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from dragoman import Conversation, load_messages
from dragoman.cli import main
from dragoman.cli.chat import Chat
from dragoman.cli.markdown import MarkdownWriter, end_of_blocks
from dragoman.cli.screen import Screen
from dragoman.cli.session import Approver, TerminalSession
from dragoman.client.providers import model_of
from waiting import LONG


def chat(*lines: str, options: tuple[str, ...] = ()):
    return CliRunner().invoke(main, ["chat", "-m", "demo:any", *options], input="\n".join(lines) + "\n")


def test_each_line_is_a_prompt(home: Path):
    result = chat("Good morning", "", "Good night")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "You said: Good morning\nYou said: Good night\n"


def test_several_lines_are_one_prompt(home: Path):
    assert chat("one\\", "two").stdout == "You said: one\ntwo\n"
    assert chat('"""', "one", "", "two", '"""').stdout == "You said: one\n\ntwo\n"
    assert chat("one\\").stdout == "You said: one\n"


def test_a_prompt_that_fails_leaves_the_conversation(home: Path):
    result = chat("One", "Two [[fault: 400]]", "/save talk.json")
    assert result.exit_code == 0
    assert result.stderr.count("\n") == 2
    assert len(load_messages(Path("talk.json").read_text())) == 2
    assert chat("Two [[fault: 400]]").exit_code == 1


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "help": (("/help",), "/undo                         remove the last prompt and its answer"),
    "model": (("/model",), "demo:any"),
    "another model": (("/model demo:other", "/model"), "demo:other"),
    "an unknown model": (("/model nobody:x",), "Unknown provider 'nobody'"),
    "models": (("/models",), "demo:demo"),
    "models of another": (("/models demo",), "demo:demo"),
    "no tools": (("/tools",), "no tools"),
    "tools": (("/tools read_file shell",), "read_file, shell"),
    "all tools": (("/tools all",), "run_shell_command"),
    "tools taken away": (("/tools all", "/tools none"), "no tools"),
    "an unknown tool": (("/tools hammer",), "Unknown tool 'hammer'"),
    "no system": (("/system",), "no system prompt"),
    "system": (("/system Be brief", "/system"), "Be brief\nBe brief"),
    "undo": (("Hello", "/undo"), "removed: Hello"),
    "nothing to undo": (("/undo",), "There is no prompt to undo"),
    "clear": (("Hello", "/clear"), "a new conversation"),
    "usage": (("Hello", "/usage"), " tokens in, "),
    "history": (("Hello", "/history"), "  Hello\n"),
    "no history": (("/history",), "nothing yet"),
    "a beginning": (("/his",), "nothing yet"),
    "an ambiguous beginning": (("/mo",), "There is no command /mo. /help lists them"),
    "save without a name": (("/save",), "/save needs the name of a file"),
    "no image": (("/image nowhere.png",), "There is no file nowhere.png"),
    "no file": (("/file nowhere.pdf",), "There is no file nowhere.pdf"),
    "nothing to load": (("/load x",), "there is no conversation 'x'"),
}


@pytest.mark.parametrize("lines, text", COMMANDS.values(), ids=COMMANDS)
def test_commands(lines: tuple[str, ...], text: str, home: Path):
    result = chat(*lines)
    assert text in result.stderr
    assert not result.exception or isinstance(result.exception, SystemExit)


def test_retry_asks_again(home: Path):
    result = chat("Hello", "/retry", "/save talk.json")
    assert result.stdout == "You said: Hello\n" * 2
    assert len(load_messages(Path("talk.json").read_text())) == 2


def test_attachments_go_with_the_next_prompt_only(home: Path):
    Path("a.pdf").write_bytes(b"%PDF-1.4\n")
    assert chat("/file a.pdf", "Read it", "Again", "/save talk.json").exit_code == 0
    first, _, second, _ = load_messages(Path("talk.json").read_text())
    assert (len(first.parts), len(second.parts)) == (2, 1)


def test_a_chat_is_continued_and_loaded(home: Path):
    chat("One")
    (stored,) = (home / "XDG_DATA_HOME/dragoman/chats").iterdir()
    chat("Two", options=("-c",))
    assert len(load_messages(stored.read_text())) == 4
    result = chat(f"/load {stored.stem}", "Three", options=("--no-history",))
    assert f"{stored.stem}: 4 messages" in result.stderr
    assert len(load_messages(stored.read_text())) == 4  # this chat is not stored
    assert chat(f"/load {stored.stem}", "Three").exit_code == 0
    assert len(load_messages(stored.read_text())) == 6


def test_exit_ends_it(home: Path):
    assert chat("/exit", "Hello").stdout == ""


def test_tools_run(home: Path):
    Path("notes.txt").write_text("the notes\n")
    result = chat("Please read notes.txt", options=("--tool", "read_file"))
    assert "the notes" in result.stdout
    assert "→ read_file" in result.stderr


def test_completion_of_lines(home: Path):
    session = TerminalSession(Conversation(), model_of("demo:any"), [], Screen(), 5)
    complete: Any = Chat(session)._complete
    assert complete("/u") == ["/undo", "/usage"]
    assert complete("/model anth") == ["/model anthropic:"]
    assert complete("/tools read_f") == ["/tools read_file"]
    assert complete("/load x") == complete("/undo x") == []


def test_an_approval_may_be_for_the_session(monkeypatch: pytest.MonkeyPatch):
    answers = ["n", "y", "a"]
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *_, **__: answers.pop(0))
    approve = Approver(remembers=True)
    call = {"id": "1", "function": {"name": "run_shell_command", "arguments": "{}"}}
    assert [approve(call) for _ in range(4)] == ["the user refused", True, True, True]


def test_at_a_terminal(tmp_path: Path):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "dragoman", "chat", "-m", "demo:any"]
    process = subprocess.Popen(command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = ""

    def expect(text: str) -> None:
        nonlocal seen
        while text not in seen:
            assert select.select([ours], [], [], LONG)[0], seen
            seen += os.read(ours, 10_000).decode(errors="replace")
        seen = seen.partition(text)[2]

    expect("/help lists the commands")
    expect("> ")
    os.write(ours, b"Say **bold** words\n")
    expect("You said: Say \x1b[1mbold")
    expect("> ")
    os.write(ours, b"Wait [[fault: stall]]\n")
    expect("fault: stall]]")
    expect("waiting for the model")  # which never answers
    process.send_signal(signal.SIGINT)
    expect("the conversation is as it was before")
    expect("> ")
    os.write(ours, b"/exit\n")
    expect("continue with: dragoman chat -c")
    assert process.wait(120) == 0
    os.close(ours)
    assert [*tmp_path.rglob("*.json")]


BLOCKS = {
    "a paragraph": ("one\n\ntwo", "one\n\n"),
    "nothing ended": ("one\ntwo", ""),
    "inside a block of code": ("one\n\n```\na\n\nb", "one\n\n"),
    "after it": ("```\na\n\nb\n```\n\nend", "```\na\n\nb\n```\n\n"),
    "only code": ("~~~\na\n\nb", ""),
}


@pytest.mark.parametrize("text, ended", BLOCKS.values(), ids=BLOCKS)
def test_blocks_that_ended(text: str, ended: str):
    assert text[: end_of_blocks(text)] == ended


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_markdown_is_the_same_however_it_is_cut(size: int):
    text = "# Title\n\nSome *words*.\n\n- one\n- two\n\n```python\nx = 1\n\ny = 2\n```\n\nend"
    out = io.StringIO()
    writer = MarkdownWriter(Console(file=out, width=60))
    for start in range(0, len(text), size):
        writer.feed(text[start : start + size])
    writer.end()
    shown = [line.strip() for line in out.getvalue().split("\n") if line.strip()]
    assert shown[-1] == "end"
    assert "Some words." in shown
    assert shown.index("x = 1") < shown.index("y = 2")


def completed(words: str, **environ: str) -> list[str]:
    given = {
        "_DRAGOMAN_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    result = subprocess.run(
        [sys.executable, "-m", "dragoman"],
        env={**os.environ, **given, **environ},
        capture_output=True,
        text=True,
    )
    return [line.partition(",")[2] for line in result.stdout.splitlines()]


def test_shell_completion(home: Path):
    assert completed("dragoman ch") == ["check", "chat"]
    assert "demo:" in completed("dragoman ask --model ")
    assert "groq:" not in completed("dragoman ask --model ")
    assert completed("dragoman ask --model gro", GROQ_API_KEY="k") == ["groq:"]
    assert completed("dragoman ask --tool read_f") == ["read_file"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str):
    result = CliRunner().invoke(main, ["completion", shell])
    assert (result.exit_code, "_DRAGOMAN_COMPLETE" in result.stdout) == (0, True)
