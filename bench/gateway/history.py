"""Requests as agents send them: the whole history in each turn.

Every message of a conversation carries its number, so that no message of a new conversation was seen before.
Tools and system prompt are the same in all conversations, as those of an agent are.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from math import ceil

from bench.conversation import Conversation, Round, make_conversation
from bench.gateway.bodies import small
from bench.gateway.measure import Running
from bench.gateway.pairs import WHOLE, Kind, Pair
from bench.gateway.processes import cpu_microseconds
from bench.gateway.requests import Connections
from bench.gateway.wrk import load

NUMBER = "#number#"
NUMBERS = count(10**7)  # as many digits as NUMBER has characters
ROUNDS = 40  # of a call and its result: 81 messages
INTERRUPTED = 3  # the round of the call without a result
FIRST_TURNS, TURNS = (34, 36), (38, 40, 42)  # in rounds: two new ones in each turn, 4 of 81 messages
SMALL_AT_ONCE, LARGE_AT_ONCE = 32, 8
MOST_A_SECOND = 20_000  # small requests; so many conversations are new


def numbered(talk: Conversation) -> Conversation:
    return replace(talk, prompt=f"{NUMBER} {talk.prompt}", rounds=tuple(map(numbered_round, talk.rounds)))


def numbered_round(one: Round) -> Round:
    return replace(
        one,
        text=f"{NUMBER} {one.text}",
        call_id=f"{one.call_id}{NUMBER}",
        arguments={**one.arguments, "path": f"src/{NUMBER}.py"},
        result=f"{NUMBER}\n{one.result}",
    )


@cache
def few_messages() -> Conversation:
    """Five messages and three tools."""
    return numbered(replace(small(), rounds=make_conversation(rounds=2, lines=3).rounds))


@cache
def conversation(rounds: int) -> Conversation:
    return numbered(make_conversation(rounds=rounds, lines=32))


@cache
def interrupted_conversation(rounds: int) -> Conversation:
    """The user stops one of the first calls, and the session goes on."""
    talk = conversation(rounds)
    stopped = replace(talk.rounds[INTERRUPTED], result="Stop. Do something else.", is_interrupted=True)
    return replace(talk, rounds=(*talk.rounds[:INTERRUPTED], stopped, *talk.rounds[INTERRUPTED + 1 :]))


def wires_of(
    one: Running, pair: Pair, talk: Conversation, numbers: Iterable[int], kind: Kind = WHOLE
) -> list[bytes]:
    """The same request of several conversations."""
    template, number = one.request(pair, kind, talk).wire, NUMBER.encode()
    return [template.replace(number, b"%d" % each) for each in numbers]


def new_numbers(count: int) -> list[int]:
    return [next(NUMBERS) for _ in range(count)]


def repeated_small(pair: Pair, seconds: float, one: Running) -> float:
    return cpu_under_load(pair, SMALL_AT_ONCE, seconds, one)


def cold_small(pair: Pair, seconds: float, one: Running) -> float:
    return cpu_under_load(pair, ceil(MOST_A_SECOND * seconds), seconds, one)


def cpu_under_load(pair: Pair, conversations: int, seconds: float, one: Running) -> float:
    """CPU microseconds of the gateway for each small request, while it has as many as it can answer: else it
    is mostly the cost of being woken that is measured."""
    template = one.request(pair, WHOLE, few_messages())
    number, numbers = NUMBER.encode(), new_numbers(conversations)
    first, *others = [template.body.replace(number, b"%d" % each) for each in numbers]
    before = cpu_microseconds(one.pid)
    seen = load(one.place, replace(template, body=first), SMALL_AT_ONCE, seconds, others)
    return (cpu_microseconds(one.pid) - before) / seen.count


def repeated(pair: Pair, times: int, one: Running) -> float:
    """Several conversations, each sent again and again without a change."""
    wires = wires_of(one, pair, conversation(ROUNDS), new_numbers(LARGE_AT_ONCE))
    return cpu_of(one, iter([wires] * (3 + times)), unmeasured=3)


def cold(pair: Pair, times: int, one: Running) -> float:
    """Each request is a conversation that was never seen."""
    talk = conversation(ROUNDS)
    turns = [wires_of(one, pair, talk, new_numbers(LARGE_AT_ONCE)) for _ in range(1 + times)]
    return cpu_of(one, iter(turns), unmeasured=1)


def growing(pair: Pair, times: int, one: Running) -> float:
    return cpu_of_growing(conversation, pair, times, one)


def interrupted(pair: Pair, times: int, one: Running) -> float:
    return cpu_of_growing(interrupted_conversation, pair, times, one)


def cpu_of_growing(talk: Callable[[int], Conversation], pair: Pair, times: int, one: Running) -> float:
    """Several conversations, each with 5 % new messages in every turn; the first two turns, where the gateway
    meets them, are not counted."""
    taken = list[float]()
    for _ in range(times):
        numbers = new_numbers(LARGE_AT_ONCE)
        turns = [wires_of(one, pair, talk(rounds), numbers) for rounds in (*FIRST_TURNS, *TURNS)]
        taken.append(cpu_of(one, iter(turns), unmeasured=len(FIRST_TURNS)))
    return statistics.mean(taken)


def cpu_of(one: Running, turns: Iterator[Sequence[bytes]], unmeasured: int) -> float:
    """CPU microseconds of the gateway for each request, after the first few turns. In a turn all requests are
    sent before the first reply is read."""
    first = next(turns)
    with Connections(one.port, len(first)) as connections:
        connections.exchange(first)
        for _ in range(unmeasured - 1):
            connections.exchange(next(turns))
        count, before = 0, cpu_microseconds(one.pid)
        for wires in turns:
            connections.exchange(wires)
            count += len(wires)
        return (cpu_microseconds(one.pid) - before) / count
