"""Several gateways on one PostgreSQL count a key together; without it, each counts for itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from dragoman.core import jsontext
from dragoman.gateway.admission import postgres_counters
from dragoman.gateway.admission.authentication import Caller
from dragoman.gateway.admission.postgres_counters import PostgresCounters
from dragoman.gateway.config.keys import Allowance
from gateway.conversations.databases import PostgresDatabase
from gateway.plain import ask, asking, opened
from gateway.stands import CLIENT_KEY, Stand, gateway
from ports import closed_port
from waiting import wait_until

Act = Callable[[list[PostgresCounters], list[str]], Awaitable[None]]


def sharing(url: str, act: Act, count: int = 2, lease: float = 30.0) -> None:
    """`act` with the counters of `count` gateways, and what they logged."""

    async def run() -> None:
        logged: list[str] = []
        gateways = [PostgresCounters(url, logged.append, lease) for _ in range(count)]
        try:
            await act(gateways, logged)
        finally:
            for counts in gateways:
                await counts.close()

    asyncio.run(run())


def alice(per_minute: int = 0, concurrency: int = 0) -> list[Caller]:
    """As each of two gateways knows her."""
    return [Caller("alice", "a1", Allowance(per_minute, concurrency)) for _ in range(2)]


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.02)


def test_a_rate_of_all_together(database: PostgresDatabase):
    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        callers, left = alice(per_minute=5), list[int]()
        for number in range(5):
            which = number % 2
            verdict = await gateways[which].enter(callers[which], f"r{number}", rated=True)
            assert verdict.rate
            assert not verdict.refused
            left.append(verdict.rate.remaining)
        assert left == [4, 3, 2, 1, 0]
        for which in (0, 1):
            verdict = await gateways[which].enter(callers[which], "more", rated=True)
            assert verdict.refused == "rate"
            assert verdict.rate
            assert 0 < verdict.rate.wait <= 12
            assert not (await gateways[which].enter(callers[which], "count", rated=False)).refused
        other = Caller("bob", "b1", Allowance(5))
        assert not (await gateways[0].enter(other, "bobs", rated=True)).refused
        assert not logged

    sharing(database.url, act)


def test_so_many_at_a_time_of_all_together(database: PostgresDatabase):
    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        (here, there), callers = gateways, alice(concurrency=2)
        assert not (await here.enter(callers[0], "r1", rated=True)).refused
        assert not (await there.enter(callers[1], "r2", rated=True)).refused
        for which in (0, 1):
            assert (await gateways[which].enter(callers[which], "r3", rated=True)).refused == "concurrency"
        here.leave(callers[0], "r1")
        assert not (await here.enter(callers[0], "r4", rated=True)).refused  # at once: it knows itself
        there.leave(callers[1], "r2")
        here.leave(callers[0], "r4")

        async def nothing_held() -> bool:
            return database.rows("select count(*) from dragoman_leases") == [(0,)]

        await eventually(nothing_held)
        assert [caller.inside for caller in callers] == [0, 0]

    sharing(database.url, act)


def test_never_more_than_allowed_and_never_stuck(database: PostgresDatabase):
    """Many exchanges at once on three gateways; some are cancelled while they ask."""

    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        callers = [Caller("a", "a1", Allowance(concurrency=3)) for _ in gateways]
        inside, seen, served = 0, list[int](), list[str]()
        chance = random.Random(7)

        async def exchange(number: int) -> None:
            nonlocal inside
            which = number % len(gateways)
            while (await gateways[which].enter(callers[which], f"r{number}", rated=True)).refused:
                await asyncio.sleep(0.01)
            inside += 1
            seen.append(inside)
            try:
                await asyncio.sleep(chance.random() / 100)
            finally:
                inside -= 1
                gateways[which].leave(callers[which], f"r{number}")
                served.append(f"r{number}")

        tasks = [asyncio.create_task(exchange(number)) for number in range(45)]
        for task in tasks[::9]:
            await asyncio.sleep(0.005)
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
        assert max(seen) <= 3
        assert len(served) >= 40
        assert [caller.inside for caller in callers] == [0, 0, 0]
        assert not logged

        async def nothing_held() -> bool:
            return database.rows("select count(*) from dragoman_leases") == [(0,)]

        await eventually(nothing_held)

    sharing(database.url, act, count=3)


def test_what_a_dead_gateway_held_comes_free(database: PostgresDatabase):
    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        (dead, alive), callers = gateways, alice(concurrency=1)
        assert not (await dead.enter(callers[0], "r1", rated=True)).refused
        await dead.close()
        dead.leave(callers[0], "r1")  # too late

        async def free() -> bool:
            return not (await alive.enter(callers[1], "r2", rated=True)).refused

        assert not await free()
        await eventually(free)

    sharing(database.url, act, lease=1.0)


def test_long_leases_are_renewed_and_lost_ones_are_written_again(database: PostgresDatabase):
    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        caller = alice(concurrency=1)[0]
        await gateways[0].enter(caller, "r1", rated=True)
        [(first,)] = database.rows("select expires from dragoman_leases")

        async def renewed() -> bool:
            return database.rows("select lease from dragoman_leases where expires > " + str(first)) != []

        await eventually(renewed)
        database.rows("truncate dragoman_leases")
        await eventually(renewed)
        gateways[0].leave(caller, "r1")

    sharing(database.url, act, lease=0.6)


def test_without_a_database_each_counts_for_itself():
    nowhere = f"postgresql://me:secret-pw@{closed_port()}/x"

    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        callers = alice(per_minute=2, concurrency=2)
        for counts, caller in zip(gateways, callers, strict=True):
            verdicts = [await counts.enter(caller, f"r{number}", rated=True) for number in range(3)]
            assert [verdict.refused for verdict in verdicts] == ["", "", "concurrency"]
            counts.leave(caller, "r0")
            assert (await counts.enter(caller, "r3", rated=True)).refused == "rate"
        assert len(logged) == 2  # once for each
        assert logged[0].startswith("not shared, each process counts for itself: ")
        assert "secret-pw" not in logged[0]

    sharing(nowhere, act)


def test_a_connection_that_broke_is_made_again(database: PostgresDatabase):
    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        caller = alice(per_minute=100)[0]
        await gateways[0].enter(caller, "r1", rated=True)
        database.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and datname = current_database()"
        )
        verdict = await gateways[0].enter(caller, "r2", rated=True)
        assert verdict.rate
        assert verdict.rate.remaining == 98
        assert not logged

    sharing(database.url, act)


def test_lost_and_found(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch):
    """The log says both, once."""
    monkeypatch.setattr("dragoman.gateway.admission.postgres_counters._RETRY_AFTER", 0.05)

    async def act(gateways: list[PostgresCounters], logged: list[str]) -> None:
        counts, caller = gateways[0], alice(concurrency=999)[0]
        await counts.enter(caller, "r1", rated=True)
        database.rows("alter function dragoman_enter rename to away")
        await counts.enter(caller, "r2", rated=True)
        await counts.enter(caller, "r3", rated=True)
        assert [line.partition(":")[0] for line in logged] == ["not shared, each process counts for itself"]
        database.rows("alter function away rename to dragoman_enter")

        async def found() -> bool:
            await counts.enter(caller, f"r{random.random()}", rated=False)
            return len(logged) > 1

        await eventually(found)
        assert logged[1:] == ["shared again"]

    sharing(database.url, act)


# Whole gateways


def replicas(database: PostgresDatabase, limits: str) -> str:
    return f'[store]\nurl = "{database.url}"\n[keys.alice]\nkey = "{CLIENT_KEY}"\n{limits}\n'


def test_two_gateways_limit_a_key_together(database: PostgresDatabase):
    text = replicas(database, "requests_per_minute = 3")
    with gateway(text) as one, gateway(text) as other:
        answers = [ask(stand.url, "anthropic", "hello", "demo:m") for stand in (one, other, one, other, one)]
        assert [got.status for got in answers] == [200, 200, 200, 429, 429]
        assert [got.headers["anthropic-ratelimit-requests-remaining"] for got in answers] == [*"21000"]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 20


def test_two_gateways_share_what_is_under_way(database: PostgresDatabase):
    text = replicas(database, "concurrency = 1")
    path, body = asking("openai-chat", "hello [[fault: hang]]", "demo:m")
    with gateway(text) as one, gateway(text) as other:
        with opened(one.url, path, jsontext.encode(body)):
            wait_until(lambda: one.gateway.admission.semaphore.held == 1)
            assert ask(other.url, "gemini", "hello", "demo:m").status == 429
            assert other.last()["shed"] == "concurrency"
        wait_until(lambda: ask(other.url, "gemini", "hello", "demo:m").status == 200)


def test_one_after_the_other_is_never_too_many(database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch):
    """A place that was given back is free for the next request, wherever it goes."""
    monkeypatch.setattr(postgres_counters, "_RECHECK", 1.0)  # enough for a machine under load
    text = replicas(database, "concurrency = 1")
    with gateway(text) as one, gateway(text) as other:
        stands: list[Stand] = [one, one, other, one, other, other] * 3
        assert {ask(stand.url, "gemini", "hello", "demo:m").status for stand in stands} == {200}
