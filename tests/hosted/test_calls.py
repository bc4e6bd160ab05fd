"""The limits of the calls of one reply, and what waits for a later request."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.core.hosted import FoundSource, HostedResult
from dragoman.core.model import Message, Text, ToolCall, ToolResult
from dragoman.core.seal import seal_state, unseal_state
from dragoman.hosted.approvals import ApprovedCalls
from dragoman.hosted.calls import CUT, RunningCalls
from dragoman.hosted.executor import CallLimits
from dragoman.hosted.result_store import ResultsInMemory
from dragoman.hosted.returning import seal_results, unseal_results
from dragoman.hosted.search_session import SearchSession
from dragoman.hosted.web_fetch import stands_in
from waiting import StillClock

FOUND = HostedResult((Text("found"),))


def test_the_time_in_all_is_that_of_the_calls():
    """Six seconds each, one at a time, ten in all; between them the model takes its time."""
    clock = StillClock()
    running = RunningCalls(CallLimits(calls_at_once=1, seconds_in_all=10), clock)

    async def work() -> HostedResult:
        await clock.sleep(6)
        return FOUND

    async def run() -> list[str | None]:
        errors: list[str | None] = []
        for _ in range(3):
            errors.append((await running.bound(work)).error)
            await clock.sleep(1000)
        return errors

    assert asyncio.run(run()) == [None, None, "timeout"]
    assert running.is_over_time


def test_calls_of_one_round_share_the_time_in_all():
    clock = StillClock()
    running = RunningCalls(CallLimits(calls_at_once=1, seconds_in_all=10), clock)

    async def work() -> HostedResult:
        await clock.sleep(6)
        return FOUND

    async def run() -> list[str | None]:
        for number in range(4):
            running.start(str(number), work)
        return [(await running.result(str(number))).error for number in range(4)]

    assert asyncio.run(run()) == [None, None, "timeout", "timeout"]


def test_results_of_others_do_not_make_a_call_run_again():
    async def run() -> list[bool]:
        store = ResultsInMemory()
        first = await store.claim("me", "approval")
        for number in range(40):
            await store.remember("others", str(number), bytes(1024 * 1024))
        return [first, await store.claim("me", "approval"), bool(await store.recall_many("others", ["0"]))]

    assert asyncio.run(run()) == [True, False, False]


def test_what_an_approved_call_gave_is_kept_in_the_store_alone():
    async def run() -> tuple[list[str], int]:
        approved, ran = ApprovedCalls(ResultsInMemory(), CallLimits()), 0

        async def call() -> HostedResult:
            nonlocal ran
            ran += 1
            return FOUND

        texts = [(await approved.run("me", "mcpr_1", call)).text for _ in range(3)]
        await asyncio.sleep(0)
        assert not approved._tasks
        return texts, ran

    assert asyncio.run(run()) == (["found"] * 3, 1)


def test_a_session_keeps_the_names_of_pages_without_their_text():
    session = SearchSession()
    session.keep("turn0view0", FoundSource("https://a.example/", "A", "x" * 1000))
    assert session.sources["turn0view0"] == FoundSource("https://a.example/", "A")


NAMED = {
    "as it is": ("https://e.org/p", "Read https://e.org/p.", True),
    "without its scheme": ("https://e.org/p", "Read e.org/p, please", True),
    "with a slash at its end": ("https://e.org/", "Read (https://e.org)", True),
    "a place in the page": ("https://e.org/p#part", "https://e.org/p", True),
    "a page above": ("https://e.org/a", "https://e.org/a/b?c=1", True),
    "the beginning of a host": ("https://e.org", "https://e.org.evil.example/", False),
    "the end of a host": ("https://e.org/", "https://not-e.org/", False),
    "a host below": ("https://e.org/", "https://www.e.org/", False),
    "another port": ("https://e.org", "https://e.org:8443/", False),
    "the beginning of a word": ("https://e.org/p", "https://e.org/private", False),
    "the beginning of a file": ("https://e.org/p", "https://e.org/p.html", False),
    "more than was named": ("https://e.org/p?data=1", "https://e.org/p", False),
    "nothing": ("https://", "https://", False),
}


@pytest.mark.parametrize("url, said, expected", NAMED.values(), ids=NAMED)
def test_an_address_stands_in_the_conversation_whole(url: str, said: str, expected: bool):
    assert stands_in(url, (Message("user", (Text(said),)),)) is expected


def test_large_results_travel_cut_in_a_seal_that_opens():
    text = '"\\\n' * 80_000  # each takes two bytes in JSON, and the seal is JSON in JSON
    answers = [(ToolCall(str(i), "f", "{}"), ToolResult(str(i), "f", (Text(text),))) for i in range(4)]
    part = seal_results(answers)
    assert part.state
    assert unseal_state(seal_state(part.state, "x"), "x") == part.state
    found = [result.content[0] for _, result in unseal_results(part)]
    assert len(found) == 4
    assert all(isinstance(each, Text) and each.text.endswith(CUT) for each in found)
