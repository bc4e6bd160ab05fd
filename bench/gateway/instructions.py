"""`python -m bench.gateway.instructions`: machine instructions and cache misses of one request, by valgrind.

python -m bench.gateway.instructions --against main
python -m bench.gateway.instructions --pair openai-chat:anthropic --functions 50 --python .venv312/bin/python

The numbers do not depend on the load of the machine, and unlike bytecodes they include what C code does for
them. The gateway's CPU time follows the instructions; what is left is the kernel's. `--functions` lists
Python functions with all that they call, for which Python 3.12 or newer marks them in machine code.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal, get_args

from bench.conversation import Conversation
from bench.gateway.commits import ROOT, gateway_at
from bench.gateway.contenders import DRAGOMAN, Gateway
from bench.gateway.history import FIRST_TURNS, TURNS, conversation, few_messages, new_numbers, wires_of
from bench.gateway.measure import Running
from bench.gateway.pairs import PAIRS, STREAM, WHOLE, Pair
from bench.gateway.processes import free_port, running, wait_for
from bench.gateway.requests import Connections
from bench.gateway.table import head, row
from bench.gateway.upstream import serving

VALGRIND = (
    "valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-recs=1", "--branch-sim=yes",
    "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64",
)  # fmt: skip
"""Caches of one core as they are in 2026; LL stands for its second one."""
INSTRUCTIONS, CALLS = "instructions", "calls"
COLUMNS = {
    INSTRUCTIONS: ("Ir",),
    "L1 misses, code": ("I1mr",),
    "L1 misses, data": ("D1mr", "D1mw"),
    "L2 misses": ("ILmr", "DLmr", "DLmw"),
    "branches mispredicted": ("Bcm", "Bim"),
}
START = 120  # seconds
History = Literal["repeated", "growing", "new"]
Costs = dict[str, float]  # by column


@dataclass(frozen=True, slots=True)
class Work:
    """What is sent: so many connections send, all at once, the turns of their conversations."""

    is_large: bool
    history: History
    is_stream: bool

    @property
    def connections(self) -> int:
        return 4 if self.is_large else 8

    def turns(self, one: Running, pair: Pair) -> tuple[list[list[bytes]], list[list[bytes]]]:
        """The turns that are not counted, and those that are."""
        before, counted = (4, 4) if self.is_large else (14, 10)
        if self.history == "growing":
            numbers = new_numbers(self.connections)
            first = [self._wires(one, pair, conversation(rounds), numbers) for rounds in FIRST_TURNS]
            return first, [self._wires(one, pair, conversation(rounds), numbers) for rounds in TURNS]
        talk = conversation(TURNS[1]) if self.is_large else few_messages()
        if self.history == "repeated":
            wires = self._wires(one, pair, talk, new_numbers(self.connections))
            return [wires] * before, [wires] * counted
        new = [self._wires(one, pair, talk, new_numbers(self.connections)) for _ in range(before + counted)]
        return new[:before], new[before:]

    def _wires(self, one: Running, pair: Pair, talk: Conversation, numbers: Iterable[int]) -> list[bytes]:
        return wires_of(one, pair, talk, numbers, STREAM if self.is_stream else WHOLE)


@dataclass(frozen=True, slots=True)
class Counted:
    """Costs of one request: in all, and by Python function with its callees."""

    total: Costs
    functions: dict[str, Costs]


def count(gateway: Gateway, pairs: Sequence[Pair], work: Work, python: str) -> Iterator[Counted]:
    """Pair by pair, in one process; only the counted turns run at the speed of a simulated machine."""
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        place = Path(folder)
        with serving(place) as upstream:
            started = gateway.start(place, port := free_port(), upstream)
            command = [*VALGRIND, f"--callgrind-out-file={place}/costs", python, *started.command[1:]]
            env = {
                "PYTHONPATH": str(ROOT / "src"),
                **started.env,
                "PYTHONPERFSUPPORT": "1",
                "PYTHONHASHSEED": "0",
            }
            with running(command, place / "valgrind.out", env) as process:
                wait_for(port, START)
                one = Running(gateway, process.pid, port, place, upstream)
                for number, pair in enumerate(pairs, 1):
                    yield counted(one, pair, work, Path(f"{place}/costs.{number}"))


def counted(one: Running, pair: Pair, work: Work, dump: Path) -> Counted:
    before, turns = work.turns(one, pair)
    with Connections(one.port, work.connections) as connections:
        for wires in before[:-1]:
            connections.exchange(wires)
        control(one, "--instr=on")
        connections.exchange(before[-1])
        control(one, "--zero")
        for wires in turns:
            connections.exchange(wires)
        control(one, "--dump")
        control(one, "--instr=off")
    names = Path(f"/tmp/perf-{one.pid}.map")  # where Python says which address is which function
    symbols = Symbols(names.read_text() if names.exists() else "")
    return read_dump(dump.read_text().splitlines(), symbols, sum(map(len, turns)))


def control(one: Running, what: str) -> None:
    subprocess.run(["callgrind_control", what, str(one.pid)], check=True, capture_output=True)


class Symbols:
    """Names of the addresses at which Python enters its functions."""

    def __init__(self, text: str) -> None:
        rows = (line.split(" ", 2) for line in text.splitlines())
        self._rows = sorted((int(start, 16), int(size, 16), name) for start, size, name in rows)

    def name(self, function: str) -> str | None:
        if not self._rows or not function.startswith("0x"):
            return None
        address = int(function.partition("'")[0], 16)  # what follows tells a recursion
        start, size, name = self._rows[bisect_right(self._rows, address, key=itemgetter(0)) - 1]
        return name.removeprefix("py::") if start <= address < start + size else None


def read_dump(lines: Iterable[str], symbols: Symbols, requests: int) -> Counted:
    """The format is described in valgrind's manual, "Callgrind Format Specification"."""
    total, functions = Costs(), dict[str, Costs]()
    names, events = dict[str, str](), list[str]()
    function, calls = "", 0
    for line in lines:
        key, _, value = line.partition("=")
        if line.startswith("events: "):
            events = line.split()[1:]
        elif line.startswith("totals: "):
            total = costs(events, line, requests)
        elif key in ("fn", "cfn"):
            number, _, name = value.partition(" ")
            function = names[number] = name or names[number]
        elif key == "calls":
            calls = int(value.split()[0])
        elif calls and line:  # what these calls cost, with all that they called
            if name := symbols.name(function):
                spent = {**costs(events, line, requests), CALLS: calls / requests}
                before = functions.get(name, {})
                functions[name] = {title: before.get(title, 0) + cost for title, cost in spent.items()}
            calls = 0
    return Counted(total, functions)


def costs(events: Sequence[str], line: str, requests: int) -> Costs:
    found = {name: int(cost) / requests for name, cost in zip(events, line.split()[1:], strict=False)}
    return {title: sum(found.get(name, 0) for name in names) for title, names in COLUMNS.items()}


def table(pairs: Sequence[Pair], made: Mapping[str, Sequence[Counted]]) -> Iterator[str]:
    yield from head(["client → upstream", "", *COLUMNS, "ratio"])
    for place, pair in enumerate(pairs):
        first = next(iter(made.values()))[place].total[INSTRUCTIONS]
        for name, counts in made.items():
            spent = counts[place].total
            ratio = f"{spent[INSTRUCTIONS] / first:.2f}"
            yield row([pair.title, name, *(f"{spent[title]:,.0f}" for title in COLUMNS), ratio])


def functions(counts: Counted, most: int) -> Iterator[str]:
    yield f"{INSTRUCTIONS:>12} {CALLS:>7}  function, with all that it calls"
    listed = sorted(counts.functions.items(), key=lambda item: -item[1][INSTRUCTIONS])
    for name, spent in listed[:most]:
        function, _, path = name.partition(":")
        place = path.rpartition("dragoman/")[2]
        yield f"{spent[INSTRUCTIONS]:12,.0f} {spent[CALLS]:7.1f}  {function}  {place}"


def main() -> None:
    chosen = arguments()
    os.environ["PATH"] += ":/usr/sbin"  # where Debian keeps nginx, which not everybody's path names
    if not shutil.which("valgrind"):
        raise SystemExit("valgrind is missing; Debian's package has that name")
    pairs = [pair for pair in PAIRS if not chosen.pair or f"{pair.client}:{pair.upstream}" in chosen.pair]
    work = Work(chosen.large, chosen.history, chosen.stream)
    gateways = [*map(gateway_at, chosen.against), DRAGOMAN]
    made = {each.name: list(count(each, pairs, work, chosen.python)) for each in gateways}
    print("\n".join(table(pairs, made)))
    if chosen.functions:
        for pair, counts in zip(pairs, made[DRAGOMAN.name], strict=True):
            print(f"\n{pair.title}", *functions(counts, chosen.functions), sep="\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", action="append", default=[], metavar="REF", help="another commit")
    parser.add_argument("--pair", action="append", help="client:upstream, such as anthropic:openai-chat")
    parser.add_argument("--large", action="store_true", help="requests of 150 kB")
    parser.add_argument("--history", choices=get_args(History), default="repeated")
    parser.add_argument("--stream", action="store_true", help="streamed replies")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="list the N dearest functions")
    parser.add_argument("--python", default=sys.executable, help="that runs the gateway")
    return parser.parse_args()


if __name__ == "__main__":
    main()
