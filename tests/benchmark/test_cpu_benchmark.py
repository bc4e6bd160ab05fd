"""CPU beside another commit: what is sent is what the row says, and bars are kept, missed or open."""

import json

import pytest
from bench.gateway import cpu, history, rows
from bench.gateway.bodies import request_body
from bench.gateway.pairs import CHAT_CHAT, PATHS, WHOLE
from bench.gateway.writing import PAGE


def messages(client: str, rounds: int) -> list[object]:
    body = json.loads(request_body(client, "m", WHOLE, history.conversation(rounds)))
    return body[{"openai-responses": "input", "gemini": "contents"}.get(client, "messages")]


@pytest.mark.parametrize("client", PATHS)
def test_each_turn_repeats_the_one_before_and_adds_five_percent(client):
    for before, after in zip(history.TURNS, history.TURNS[1:], strict=False):
        shorter, longer = messages(client, before), messages(client, after)
        assert longer[: len(shorter)] == shorter
        assert 0.04 < 1 - len(shorter) / len(longer) < 0.06


def test_the_large_request_has_81_messages_and_150_kb():
    assert len(messages("anthropic", history.ROUNDS)) == 81
    assert (
        145_000 < len(request_body("anthropic", "m", WHOLE, history.conversation(history.ROUNDS))) < 155_000
    )


@pytest.mark.parametrize("client", PATHS)
def test_every_message_tells_its_conversation(client):
    without_system = [message for message in messages(client, 3) if "system" not in json.dumps(message)]
    assert without_system
    assert all(history.NUMBER in json.dumps(message) for message in without_system)


BARS = {
    "a ratio": (rows.Mark(ratio=0.5), (5, 10, None), True),
    "a ratio missed": (rows.Mark(ratio=0.5), (5.1, 10, None), False),
    "a ratio without the other commit": (rows.Mark(ratio=0.5), (5, None, None), None),
    "above nginx": (rows.Mark(above_limit=18), (30, None, 12), True),
    "above nginx missed": (rows.Mark(above_limit=18), (30.1, None, 12), False),
    "at most": (rows.Mark(at_most=10), (10, None, None), True),
    "none": (rows.Mark(), (10, 1, 1), None),
}


@pytest.mark.parametrize("bar, figures, kept", BARS.values(), ids=BARS)
def test_a_bar(bar, figures, kept):
    assert bar.kept(*figures) is kept


def test_rows_have_titles_of_their_own():
    titles = [row.title for row in rows.rows()]
    assert len(set(titles)) == len(titles)


def test_the_table_shows_figures_ratio_and_verdict():
    row = next(rows.rows())
    figures = cpu.CpuFigures(["abc1234"])
    for name, value in {"dragoman": 50.0, "abc1234": 100.0, "nginx": 20.0}.items():
        figures.add(row, name, value)
    figures.add(row, "dragoman", 60.0)  # a worse round does not count
    shown = f"| {row.what} | {CHAT_CHAT.title} | 100 | 50 | 0.50 | 20 |  | ≤ 0.73 × | kept |"
    assert shown in list(cpu.table(figures))


def test_the_page_shows_the_figures_that_are_saved():
    assert cpu.report(cpu.saved()) in PAGE.read_text()
