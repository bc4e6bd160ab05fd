"""Which exchanges belong together: those of a session that the agent names, and loops of calls of an SDK,
which names none, by what their messages have in common."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.recording.values import RecordingSummary


def conversation(summaries: Sequence[RecordingSummary], mine: RecordingSummary) -> list[RecordingSummary]:
    """The exchanges of the same conversation, oldest first. It begins with the same messages.

    Without a session two conversations may begin alike. They part at the first reply, which only the first
    turn of each does not repeat: of those the last before the second turn is meant.
    """
    if not mine.start:
        return [mine]
    alike = [each for each in summaries if each.start == mine.start and each.client == mine.client]
    alike.sort(key=lambda each: each.time)
    if mine.session:
        return [each for each in alike if (each.session, each.agent) == (mine.session, mine.agent)]
    alike = [each for each in alike if not each.session]
    later = [each for each in alike if each.run == (mine.run or _run_behind(alike, mine)) and each.run]
    if not later:
        return [mine]
    firsts = [each for each in alike if not each.run and each.time < later[0].time]
    return [*firsts[-1:], *later]


def _run_behind(alike: list[RecordingSummary], mine: RecordingSummary) -> str:
    """The loop that a first turn began: that of the turn which comes next; none after another first turn."""
    behind = [each for each in alike if each.time > mine.time]
    return behind[0].run if behind else ""
