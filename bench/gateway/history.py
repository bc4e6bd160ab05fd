"""Requests of 150 kB as agents send them: the whole history in each turn.

Every message of a conversation carries its number, so that no message of a new conversation was seen before.
Tools and system prompt are the same in all conversations, as those of an agent are.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count

from bench.conversation import Conversation, Round, make_conversation
from bench.gateway.asking import BenchRequest, Connections
from bench.gateway.bodies import small
from bench.gateway.measure import Running
from bench.gateway.pairs import WHOLE, Pair
from bench.gateway.processes import cpu_microseconds

NUMBER = "#number#"
NUMBERS = count(10**7)  # as many digits as NUMBER has characters
ROUNDS = 40  # of a call and its result: 81 messages
FIRST_TURNS, TURNS = (34, 36), (38, 40, 42)  # in rounds: two new ones in each turn, 4 of 81 messages
AT_ONCE = 8


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


def few_messages() -> Conversation:
    """Five messages and three tools."""
    return replace(small(), rounds=make_conversation(rounds=2, lines=3).rounds)


@cache
def conversation(rounds: int) -> Conversation:
    return numbered(make_conversation(rounds=rounds, lines=32))


def requests_of(one: Running, pair: Pair, talk: Conversation, numbers: Sequence[int]) -> list[BenchRequest]:
    """The same request of several conversations."""
    template = one.asked(pair, WHOLE, talk)
    mark = NUMBER.encode()
    return [replace(template, body=template.body.replace(mark, b"%d" % number)) for number in numbers]


def new_numbers() -> list[int]:
    return [next(NUMBERS) for _ in range(AT_ONCE)]


def repeated(one: Running, pair: Pair, times: int) -> float:
    """Eight conversations, each sent again and again without a change."""
    requests = requests_of(one, pair, conversation(ROUNDS), new_numbers())
    return cpu_of(one, iter([requests] * (3 + times)), unmeasured=3)


def growing(one: Running, pair: Pair, times: int) -> float:
    """Eight conversations at a time, each with 5 % new messages in every turn; the first two turns, where
    the gateway meets them, are not counted."""
    return statistics.mean(
        cpu_of(one, turns_of(one, pair, new_numbers()), unmeasured=len(FIRST_TURNS)) for _ in range(times)
    )


def turns_of(one: Running, pair: Pair, numbers: Sequence[int]) -> Iterator[list[BenchRequest]]:
    for rounds in (*FIRST_TURNS, *TURNS):
        yield requests_of(one, pair, conversation(rounds), numbers)


def cold(one: Running, pair: Pair, times: int) -> float:
    """Each request is a conversation that was never seen."""
    talk = conversation(ROUNDS)
    return cpu_of(one, (requests_of(one, pair, talk, new_numbers()) for _ in range(1 + times)), unmeasured=1)


def cold_small(one: Running, pair: Pair, times: int) -> float:
    """A small request of a conversation that was never seen."""
    talk = numbered(few_messages())
    return cpu_of(one, (requests_of(one, pair, talk, new_numbers()) for _ in range(1 + times)), unmeasured=1)


def cpu_of(one: Running, turns: Iterator[list[BenchRequest]], unmeasured: int) -> float:
    """CPU microseconds of the gateway for each request, after the first few turns."""
    with Connections(one.port, AT_ONCE) as connections:
        for _ in range(unmeasured):
            connections.exchange(next(turns))
        sent, before = 0, cpu_microseconds(one.pid)
        for requests in turns:
            connections.exchange(requests)
            sent += len(requests)
        return (cpu_microseconds(one.pid) - before) / sent
