"""The gateway benchmark: right replies pass its check, wrong ones do not, the docs show the kept figures."""

import xml.etree.ElementTree as ElementTree

import pytest
from bench.gateway import bars, bodies, replies, slow, table, writing
from bench.gateway.figures import Measurements, keep_best
from bench.gateway.pairs import ANTHROPIC_ANTHROPIC, ANTHROPIC_CHAT, CHAT_ANTHROPIC, CHAT_CHAT, STREAM, WHOLE
from bench.gateway.plot import plot

SAID = {WHOLE: bodies.whole, STREAM: lambda upstream: b"".join(bodies.frames(upstream))}


@pytest.mark.parametrize("kind", [WHOLE, STREAM])
@pytest.mark.parametrize("pair", [CHAT_CHAT, ANTHROPIC_ANTHROPIC], ids=lambda pair: pair.title)
def test_what_the_upstream_says_is_right(pair, kind):
    replies.check(pair.client, kind, SAID[kind](pair.upstream), bodies.reply_of(kind))


WRONG = {
    "an error page": b"<html>502</html>",
    "another protocol": bodies.whole("anthropic"),
    "text that lacks its call": bodies.whole("hermes"),
    "other arguments": bodies.whole("openai-chat").replace(b"src/a.py", b"src/b.py"),
    "other text": bodies.whole("openai-chat").replace(b"word0", b"word9"),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_never_measured(body):
    with pytest.raises(replies.WrongReply):
        replies.check("openai-chat", WHOLE, body, bodies.SHORT)


@pytest.mark.parametrize("upstream", ["openai-chat", "anthropic", "gemini", "hermes", "openai-responses"])
def test_the_slow_upstream_stops_after_the_first_text(upstream):
    first, rest = slow.pieces(slow.CHUNKS[upstream])
    assert bodies.FIRST_TEXT in first
    assert b"word1 " not in first
    assert b"word1 " in rest
    assert rest.endswith(b"0\r\n\r\n")


def test_the_best_is_the_highest_rate_and_the_lowest_cost():
    best = {"rate": 10.0, "cpu": 5.0}
    keep_best(best, {"rate": 9.0, "cpu": 4.0, "first": 1.0})
    assert best == {"rate": 10.0, "cpu": 4.0, "first": 1.0}


def results(rate: float) -> dict[str, Measurements]:
    limit = Measurements(pairs={CHAT_CHAT: {"rate": 100.0, "events": 1000.0, "p50": 0.1}})
    ours = {"rate": rate, "events": rate * 10, "p50": 0.2}
    peer = Measurements(pairs={CHAT_ANTHROPIC: {"rate": 10.0}}, notes={"Chat → Gemini": "not offered"})
    pairs = {CHAT_CHAT: ours, ANTHROPIC_CHAT: ours, CHAT_ANTHROPIC: ours}
    return {"nginx": limit, "dragoman": Measurements("1", {"start": 0.5}, pairs), "TensorZero": peer}


@pytest.mark.parametrize("rate, kept", {50: True, 5: False}.items())
def test_bars_are_kept_or_missed(rate, kept):
    made = {bar.what: bar.kept for bar in bars.bars(results(rate))}
    assert made["Chat → Chat: requests/s, nginx's"] is kept
    assert made["Anthropic → Chat: requests/s, nginx's"] is kept
    assert made["Anthropic → Chat: stream events/s, nginx's"] is kept
    assert made["Chat → Anthropic: requests/s, TensorZero's"] is kept
    assert made["start to the first answer"] is True


def test_a_figure_that_could_not_be_taken_has_no_bar():
    partly = results(50)
    partly["dragoman"].pairs[CHAT_CHAT] = {"p50": 0.1}
    made = {bar.what for bar in bars.bars(partly)}
    assert "Chat → Chat: added p50, nginx's" in made
    assert "Chat → Chat: requests/s, nginx's" not in made


def test_a_run_without_the_limit_or_a_peer_is_shown_all_the_same():
    alone = {
        "dragoman": results(5)["dragoman"],
        "LiteLLM": Measurements(notes={"missing": "it is not installed"}),
    }
    assert "- LiteLLM, missing: it is not installed" in table.report(alone)
    ElementTree.fromstring(plot(alone))


def test_the_page_shows_the_figures_that_are_kept():
    kept, made_by = writing.saved()
    assert f"{table.report(kept)}\n\nMade by {made_by}." in writing.PAGE.read_text()
    assert writing.PLOT.read_text() == plot(kept)
