"""Mutations of the folds: one parameter that does not count in the key of a checkpoint, or one element of a
state that is not kept. The laws must notice each of them.

    python tools/mutate_memory.py [WORD] [--jobs 2]      only mutations whose name contains WORD

The laws run in a process of their own for each of them, until one fails: those of its protocol first. The
exit status is the number of those that they missed.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pytest

import dragoman
from dragoman import pipeline
from dragoman.core.fold import Fold

ROOT = Path(__file__).resolve().parent.parent
LAWS = ("tests/laws/test_one_fact_laws.py", "tests/laws/test_history_laws.py")
# Mutations that change no result, with the reason
EQUIVALENT = {
    "Pair without its parameter limits": "Identify, before it, has the same limits",
    "Pair without its parameter holds": "a run goes on from the other's state, which says what went on",
    "Pair without its parameter whole": "no checkpoint is kept where all messages come together",
    "DecodeContents without its parameter rejoins": "the same",
    "LatestMarks without its parameter limits": "the same",
    "LatestMarks without its parameter system_marks": "the same",
    "Identify without its parameter summarise": "a fold before it is there, or not",
    "Identify without its parameter upstream": "Pair, after it, has the same limits",
    "JoinPieces without its parameter limits": "Identify and Pair, around it, have the same limits",
    "Identify without its parameter own": "the folds that encode are those of this protocol",
    "Identify without its parameter client": "clients of two protocols share no messages",
    "EncodeForeign without content of its state": "what would be made again",
    "EncodeForeign without facts of its state": "the same",
}
FORGET_PARAMETER = """

def _is_equal(one: object, other: object) -> bool:
    names = [name for name in {fold}.__struct_fields__ if name != "{field}"]
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in names)


{fold}.__eq__ = _is_equal
{fold}.__hash__ = lambda fold: 1
"""
FORGET_STATE = """

def _forget(begin):
    from msgspec.structs import replace

    def forgetful(self, state=None):
        if state is not None:
            state = replace(state, {field}=type(state)().{field})
        return begin(self, state)

    return forgetful


{fold}.begin = _forget({fold}.begin)
"""


class Mutation(NamedTuple):
    """`text` is executed in the module."""

    name: str
    module: str
    text: str

    def run_laws(self) -> int:
        """The exit status of pytest."""
        exec(self.text, vars(importlib.import_module(self.module)))
        # made anew each time: else folds that count as equal would be the same without a memory, too
        pipeline.__dict__["_first_folds"] = vars(pipeline)["_first_folds"].__wrapped__
        options = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly"]
        return pytest.main([*options, *LAWS], [ProtocolFirst(self.module)])


class ProtocolFirst:
    """Tests of the mutated protocol run first, and those of one function not in a row."""

    def __init__(self, module: str) -> None:
        place = module.split(".")
        self._word = place[2].replace("_", "-") if place[1] == "protocols" else ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: (self._word not in item.nodeid, crc32(item.nodeid.encode())))


def mutations() -> list[Mutation]:
    for module in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
        if module.name.startswith(("dragoman.protocols", "dragoman.transforms", "dragoman.dialects.engine")):
            importlib.import_module(module.name)
    found: list[Mutation] = []
    for fold in Fold.__subclasses__():
        module, name = fold.__module__, fold.__name__
        for field in fold.__struct_fields__:
            text = FORGET_PARAMETER.format(fold=name, field=field)
            found.append(Mutation(f"{name} without its parameter {field}", module, text))
        for field in _state_fields(fold):
            text = FORGET_STATE.format(fold=name, field=field)
            found.append(Mutation(f"{name} without {field} of its state", module, text))
    return found


def _state_fields(fold: type[Fold]) -> tuple[str, ...]:
    """Of the state that its runs begin with, where that has fields."""
    wanted = str(fold.begin.__annotations__.get("state", "")).split(" | ")[0]
    kind = vars(sys.modules[fold.__module__]).get(wanted)
    return getattr(kind, "__struct_fields__", ())


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutate the folds, and see whether the laws notice")
    parser.add_argument("word", nargs="?", default="", help="only mutations whose name contains it")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", metavar="NAME", help="run the laws with this mutation, in this process")
    given = parser.parse_args()
    if given.only is not None:
        sys.exit(next(each for each in (UNCHANGED, *mutations()) if each.name == given.only).run_laws())
    if is_caught(UNCHANGED):
        sys.exit("the laws fail without a mutation")
    found = mutations()
    chosen = [each for each in found if given.word in each.name and each.name not in EQUIVALENT]
    with ThreadPoolExecutor(given.jobs) as pool:
        missed = [*pool.map(is_caught, chosen)].count(False)
    equivalent = sum([given.word in each.name and each.name in EQUIVALENT for each in found])
    print(f"{len(chosen) - missed} caught, {missed} missed, {equivalent} change no result")
    sys.exit(missed)


def is_caught(mutation: Mutation) -> bool:
    command = [sys.executable, __file__, "--only", mutation.name]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    caught = run.returncode == pytest.ExitCode.TESTS_FAILED
    last = run.stdout.strip().splitlines()[-1:] or [run.stderr.strip()[-200:]]
    print("caught" if caught else "MISSED", mutation.name, "|", last[0][:90], flush=True)
    return caught


UNCHANGED = Mutation("nothing", "dragoman.core.fold", "")

if __name__ == "__main__":
    main()
