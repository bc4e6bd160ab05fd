"""`dragoman demo`: every pair carries the call, and what is shown is what happened."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from dragoman import ToolCall, dialects, protocols
from dragoman.cli import main
from dragoman.cli.demo import cycle, show
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
    assert [what for what, good in walked.checks.items() if not good] == []
    assert len(walked.steps) == 4


@pytest.mark.parametrize("stream", (False, True), ids=("whole", "streamed"))
@pytest.mark.parametrize("dialect", dialects())
def test_the_model_speaks_every_dialect(dialect: str, stream: bool):
    walked = cycle.walk("anthropic", "openai-chat", stream, dialect)
    assert [what for what, good in walked.checks.items() if not good] == []
    assert not [loss for step in walked.steps for loss in step.losses if loss.code.startswith("dialect.")]


def test_a_dialect_is_shown():
    result = run("--from", "openai-chat", "--to", "openai-chat", "--dialect", "roo-xml")
    assert result.exit_code == 0
    assert "<path>docs/tides</path>" in result.stdout


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


def test_a_result_that_does_not_arrive_is_noticed(monkeypatch: pytest.MonkeyPatch):
    build = cycle.build_tool_results

    def lie(calls: Sequence[ToolCall], outputs: Sequence[str], protocol: str) -> object:
        return build(calls, ["something else"] * len(outputs), protocol)

    monkeypatch.setattr(cycle, "build_tool_results", lie)
    result = run()
    assert result.exit_code == 1
    assert "✗ the model got what the tools gave" in result.stdout


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
    monkeypatch.setitem(cycle.FILES, "docs/tides/HARBOUR.txt", "deep\n")
    assert "HARBOUR.txt" in run().stdout


def test_the_tool_stays_in_its_directory(tmp_path: Path):
    outcome = cycle.run(ToolCall("c", "read_file", '{"path": "../../../../etc/passwd"}'), tmp_path)
    assert isinstance(outcome, ValueError)


@pytest.mark.parametrize("width", (60, 80, 120, 200))
def test_lines_keep_within_the_terminal(width: int):
    beside = width >= 120
    lines = [
        click.unstyle(line) for line in show.lines_of(cycle.walk("anthropic", "gemini", False), width, beside)
    ]
    wires = [line for line in lines if line.startswith("    ") or "│" in line]
    assert wires
    assert max(map(len, wires)) <= width
    assert any("│" in line for line in wires) == beside


VALUES = {
    "scalar": 1,
    "short": {"a": 1, "b": [1, 2]},
    "flat but long": {f"key{number}": number for number in range(30)},
    "deep": {"a": {"b": {"c": {"d": [{"e": "x" * 10}, {"f": "y" * 10}]}}}},
    "empty containers": [{}, [], {"a": {}}, "z" * 12],
}


@pytest.mark.parametrize("width", (40, 60, 120))
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_what_fits_is_whole_and_no_line_is_too_long(value: object, width: int):
    lines = show.lay_out(value, width)
    assert json.loads("\n".join(lines)) == value
    assert max(map(len, lines)) <= width


def test_a_long_text_is_cut_with_a_mark():
    assert show.lay_out({"text": "x" * 99}, 40) == ["{", '  "text": "' + "x" * 29, "  " + "x" * 37 + "…", "}"]
