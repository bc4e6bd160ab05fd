"""`dragoman demo`: every pair carries the call, and what is shown is what happened."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman import dialects, protocols
from dragoman.cli import main
from dragoman.cli.demo import actors, cycle, show
from dragoman.pipeline import TranslatedStream

GOLDENS = Path(__file__).parent / "goldens"
GOLDEN = {
    "anthropic-gemini": (),
    "openai-chat-anthropic-stream": ("--from", "openai-chat", "--to", "anthropic", "--stream"),
}


def run(*options: str) -> Result:
    return CliRunner().invoke(main, ["demo", *options])


@pytest.mark.parametrize("stream", (False, True), ids=("whole", "streamed"))
@pytest.mark.parametrize("upstream", protocols())
@pytest.mark.parametrize("client", protocols())
def test_every_pair_carries_the_call(client: str, upstream: str, stream: bool):
    walked = cycle.walk(client, upstream, stream)
    assert [check.what for check in walked.checks if not check.good] == []
    assert len(walked.steps) == 4


@pytest.mark.parametrize("stream", (False, True), ids=("whole", "streamed"))
@pytest.mark.parametrize("dialect", dialects())
def test_the_model_speaks_every_dialect(dialect: str, stream: bool):
    walked = cycle.walk("anthropic", "openai-chat", stream, dialect)
    assert [check.what for check in walked.checks if not check.good] == []
    assert not [loss for step in walked.steps for loss in step.losses if loss.code.startswith("dialect.")]


def test_a_dialect_is_shown():
    result = run("--from", "openai-chat", "--to", "openai-chat", "--dialect", "roo-xml")
    assert result.exit_code == 0
    assert "<list_files>" in result.stdout


@pytest.mark.parametrize("name, options", GOLDEN.items(), ids=GOLDEN)
def test_what_is_printed(name: str, options: tuple[str, ...]):
    """After a change that is meant: dragoman demo … > tests/cli/goldens/….txt"""
    result = run(*options)
    assert result.exit_code == 0
    assert result.stdout == (GOLDENS / f"{name}.txt").read_text()


def test_all_is_a_line_for_each_pair():
    result = run("--all")
    *lines, last = result.stdout.splitlines()
    assert result.exit_code == 0
    assert len(lines) == len(protocols()) ** 2
    assert all("  ok  " in line for line in lines)
    assert last.startswith(f"{len(lines)} of {len(lines)} pairs")


def test_a_tool_that_lies_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(actors, "text_of", lambda result: "something else")
    monkeypatch.setattr(cycle, "text_of", lambda result: "something else")
    result = run()
    assert result.exit_code == 1
    assert "✗ the results are what the tools gave" in result.stdout


def test_a_stream_out_of_order_is_noticed(monkeypatch: pytest.MonkeyPatch):
    """The last frame of what the agent hears is lost: a reader would not miss it, the grammar does."""
    feed = TranslatedStream.feed
    monkeypatch.setattr(
        TranslatedStream, "feed", lambda self, data: feed(self, data).replace(b"data: [DONE]\n\n", b"")
    )
    result = run("--from", "openai-chat", "--to", "anthropic", "--stream")
    assert result.exit_code == 1
    assert "✗ every stream keeps to its protocol's order of events" in result.stdout


def test_the_tool_really_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(actors.FILES, "HARBOUR.txt", "deep\n")
    assert "HARBOUR.txt" in run().stdout


def test_the_tool_stays_in_its_directory(tmp_path: Path):
    from dragoman import ToolCall
    from dragoman.protocols import codec

    agent = actors.ScriptedAgent(codec("anthropic"), tmp_path, stream=False)
    outcome = agent.run(ToolCall("c", "read_file", '{"path": "../../../../etc/passwd"}'))
    assert isinstance(outcome, ValueError)


@pytest.mark.parametrize("width", (60, 80, 120, 200))
def test_lines_keep_within_the_terminal(width: int, capsys: pytest.CaptureFixture[str]):
    show.show_plain(cycle.walk("anthropic", "gemini", False), width, beside=width >= show.SIDE_BY_SIDE)
    wires = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    ") or "│" in line]
    assert wires
    assert max(map(len, wires)) <= width
    assert any("│" in line for line in wires) == (width >= show.SIDE_BY_SIDE)


def test_a_terminal_without_rich_is_shown_plainly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.delitem(sys.modules, "dragoman.cli.demo.colour", raising=False)
    show.show(cycle.walk("anthropic", "gemini", False))
    assert "─┼─" in capsys.readouterr().out


def test_rich_shows_the_same_words(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("rich")
    from dragoman.cli.demo.colour import show_rich

    walked = cycle.walk("anthropic", "gemini", False)
    for beside in (True, False):
        show_rich(walked, 120, beside)
        out = capsys.readouterr().out
        assert all(step.title in out for step in walked.steps)
        assert all(check.what in out for check in walked.checks)
        assert '"tool_use"' in out
        assert '"functionCall"' in out
