"""The semaphore, the bucket and the counts of keys, under any sequence of events."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.gateway.admission.authentication import Caller, Callers, FailedKeys
from dragoman.gateway.admission.counters import MINUTE, ProcessCounters, take
from dragoman.gateway.admission.semaphore import Permit, QueuedSemaphore, wait_for_permit
from dragoman.gateway.config import Config
from dragoman.gateway.config.keys import Allowance, NamedKey

WHO = ("a", "b", "c")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from(WHO)),
        st.tuples(st.just("leave"), st.integers(0, 30)),  # whoever that is: inside, in line, or gone long ago
    ),
    max_size=60,
)


@given(st.integers(1, 4), st.integers(0, 5), steps)
def test_never_more_than_allowed_and_nobody_waits_beside_a_free_place(
    capacity: int, queue: int, steps: list[tuple[str, int | str]]
):
    semaphore = QueuedSemaphore(capacity, queue)
    permits: list[Permit] = []
    for step, value in steps:
        if step == "come":
            free = semaphore.held < capacity or semaphore.waiting < queue
            permit = semaphore.request(str(value))
            assert permit or not free  # turned away only where everything is taken
            permits += [permit] if permit else []
        elif permits:
            permits[int(value) % len(permits)].leave()
        states = [permit.state for permit in permits]
        assert states.count("held") == semaphore.held <= capacity
        assert states.count("waiting") == semaphore.waiting <= queue
        assert not semaphore.waiting or semaphore.held == capacity
    for permit in permits:
        permit.leave()
    assert (semaphore.held, semaphore.waiting, semaphore._queues) == (0, 0, {})


@given(st.lists(st.sampled_from(WHO), min_size=1, max_size=40))
def test_every_caller_gets_its_turn(line: list[str]):
    """Between two turns of one caller, everybody else who waits has one."""
    semaphore = QueuedSemaphore(1, len(line))
    inside = semaphore.request("first")
    waiting = {permit: who for who in line if (permit := semaphore.request(who))}
    served: list[str] = []
    while inside:
        inside.leave()
        inside = next((permit for permit in waiting if permit.state == "held"), None)
        served += [waiting.pop(inside)] if inside else []
    assert sorted(served) == sorted(line)
    for place, who in enumerate(served):
        between = served[place + 1 :]
        between = between[: between.index(who)] if who in between else []
        assert len(set(between)) == len(between)


def test_a_full_line_makes_room_for_who_has_less_in_it():
    semaphore = QueuedSemaphore(1, 3)
    semaphore.request("greedy")
    greedy = [semaphore.request("greedy") for _ in range(3)]
    woken: list[str] = []
    assert greedy[2]
    greedy[2].wake = lambda: woken.append("greedy")
    modest = semaphore.request("modest")
    assert modest
    assert [permit.state for permit in greedy if permit] == ["waiting", "waiting", "released"]
    assert woken == ["greedy"]
    assert semaphore.request("greedy") is None
    assert semaphore.request("modest") is None  # one against two: it would only change places


def test_waiting_ends_with_a_place_with_time_or_with_cancellation():
    async def scene() -> None:
        semaphore = QueuedSemaphore(1, 9)
        first, second, third, fourth = (semaphore.request("x") for _ in range(4))
        assert first
        assert second
        assert third
        assert fourth
        assert await wait_for_permit(first, 0)
        assert not await wait_for_permit(third, 0.001)
        assert (semaphore.held, semaphore.waiting) == (1, 2)
        waits = asyncio.ensure_future(wait_for_permit(second, 60))
        leaves = asyncio.ensure_future(wait_for_permit(fourth, 60))
        await asyncio.sleep(0)
        leaves.cancel()
        first.leave()
        assert await waits
        with pytest.raises(asyncio.CancelledError):
            await leaves
        assert (semaphore.held, semaphore.waiting) == (1, 0)

    asyncio.run(scene())


def test_a_waiter_cancelled_while_it_is_admitted_releases_its_slot():
    async def scene() -> None:
        semaphore = QueuedSemaphore(1, 9)
        first, second = semaphore.request("x"), semaphore.request("x")
        assert first
        assert second
        waits = asyncio.ensure_future(wait_for_permit(second, 60))
        await asyncio.sleep(0)
        first.leave()
        assert second.state == "held"
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert semaphore.held == 0

    asyncio.run(scene())


@given(st.integers(1, 1000), st.lists(st.fractions(0, 20, max_denominator=1000), max_size=80))
def test_a_bucket_never_gives_more_than_it_holds_and_what_flows_in(per_minute: int, pauses: list[Fraction]):
    """In any span of time: a full bucket, and what that span adds. Waiting as Retry-After says is enough."""
    now, full_at, given_at = 0.0, 0.0, list[float]()
    for pause in pauses:
        now += float(pause)
        full_at, rate = take(full_at, now, per_minute)
        if rate.wait:
            now += rate.wait
            full_at, rate = take(full_at, now, per_minute)
        assert not rate.wait
        assert 0 <= rate.remaining < per_minute
        assert 0 < rate.reset <= MINUTE + 1e-5
        given_at.append(now)
        for number, since in enumerate(reversed(given_at), 1):
            assert number <= per_minute + (now - since) * per_minute / MINUTE + 1e-3


@pytest.mark.parametrize("per_minute", [1, 3, 7, 60, 999, 6000])
def test_a_full_bucket_gives_a_whole_minutes_worth(per_minute: int):
    full_at, left = 0.0, list[int]()
    for _ in range(per_minute):
        full_at, rate = take(full_at, 1e9, per_minute)
        assert not rate.wait
        left.append(rate.remaining)
    assert left == list(range(per_minute - 1, -1, -1))
    _, rate = take(full_at, 1e9, per_minute)
    assert rate.wait == pytest.approx(MINUTE / per_minute, abs=1e-3)


events = st.lists(
    st.one_of(st.just(None), st.integers(0, 20), st.floats(0.1, 30)),  # come, leave, time passes
    max_size=60,
)


@given(st.integers(0, 3), st.integers(0, 5), events)
def test_counts_of_a_key(concurrency: int, per_minute: int, events: list[int | float | None]):
    now = 0.0
    counts = ProcessCounters(lambda: now)
    caller = Caller("a", "a", Allowance(per_minute, concurrency))
    inside = 0
    tokens = float(per_minute)
    for event in events:
        if isinstance(event, float):
            now += event
            tokens = min(tokens + event * per_minute / MINUTE, per_minute)
        elif event is None:
            verdict = asyncio.run(counts.enter(caller, "x", rated=True))
            full, fast = 0 < concurrency <= inside, per_minute and tokens < 1 - 1e-6
            near = per_minute and abs(tokens - 1) < 1e-5  # sums of fractions are not exact
            if not near:
                assert verdict.refused == ("concurrency" if full else "rate" if fast else "")
            if not verdict.refused:
                inside, tokens = inside + 1, tokens - 1
        elif inside:
            counts.leave(caller, "x")
            inside -= 1
        assert caller.inside == inside <= (concurrency or 99)


def test_who_has_which_name():
    config = Config(keys=("k1", "k2"))
    callers = Callers(config)
    found = [callers.find(key) for key in ("k1", "k2", "k3", "", "\udcff")]
    assert [caller.name if caller else None for caller in found] == ["key-1", "key-2", None, None, None]
    anyone = Callers(Config()).find("whatever")
    assert anyone
    assert (anyone.name, anyone.limited) == ("", False)


def test_a_stored_request_of_a_key_that_has_expired_has_no_caller():
    """Neither a background response nor a line of a batch runs for it."""
    key = NamedKey("a", "k", Allowance(), expires=9e12)
    callers = Callers(Config(keys=("k", "other"), named_keys=(key,)))
    caller = callers.find("k")
    assert caller
    assert callers.by_id(caller.id) is caller
    callers.configure(Config(keys=("k", "other"), named_keys=(replace(key, expires=1.0),)))
    assert (callers.find("k"), callers.by_id(caller.id)) == (None, None)


def test_another_capacity_wakes_who_waits_and_takes_no_permit_away():
    semaphore = QueuedSemaphore(1, 5)
    first, *others = [semaphore.request("a") for _ in range(4)]
    semaphore.resize(3, 5)
    assert [permit and permit.state for permit in (first, *others)] == ["held", "held", "held", "waiting"]
    semaphore.resize(1, 5)
    for permit in (first, others[0]):
        assert permit
        permit.leave()
        assert others[2]
        assert others[2].state == "waiting"
    assert others[1]
    others[1].leave()
    assert (others[2].state, semaphore.held, semaphore.waiting) == ("held", 1, 0)


def test_wrong_keys_are_counted_by_network_for_a_minute_in_a_bounded_table():
    now = 100.0
    failed = FailedKeys(2, lambda: now)
    for address in ("2001:db8::1", "2001:db8::2", "192.0.2.1", "::ffff:192.0.2.1"):
        failed.add(address)
    refused = {
        address: failed.refusal(address) is not None
        for address in ("2001:db8::3", "2001:db8:0:1::1", "192.0.2.1", "192.0.2.2", "")
    }
    assert list(refused.values()) == [True, False, True, False, False]
    now += 60
    assert failed.refusal("192.0.2.1") is None
    for number in range(20_000):
        failed.add(f"10.0.{number >> 8}.{number & 255}")
    assert len(failed._failures) == 10_000


def test_a_key_keeps_its_counts_in_a_new_configuration():
    callers = Callers(Config(keys=("one", "two")))
    before = callers.find("two")
    assert before
    before.inside = 3
    callers.configure(Config(keys=("two", "three")))
    assert callers.find("two") is before
    assert (before.name, before.inside, callers.find("one")) == ("key-1", 3, None)
