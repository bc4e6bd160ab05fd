"""Mutations of the folds: one parameter that does not count in the key of a checkpoint, or one element of a
state that is not kept. The laws must notice each of them.

    python tools/mutate_memory.py [WORD]      only mutations whose name contains WORD

Each one is made in a copy of the tree, and the laws run there. The exit status is the number of those that
they missed.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import dragoman
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
    """`text` is added to the module."""

    name: str
    module: str
    text: str


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
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if is_caught(Mutation("nothing", "dragoman.core.fold", "")):
        sys.exit("the laws fail without a mutation")
    chosen = [each for each in mutations() if word in each.name and each.name not in EQUIVALENT]
    missed = [each.name for each in chosen if not is_caught(each)]
    print(f"{len(missed)} missed")
    sys.exit(len(missed))


def is_caught(mutation: Mutation) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        file = tree / "src" / (mutation.module.replace(".", "/") + ".py")
        file.write_text(file.read_text() + mutation.text)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *LAWS]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    caught = run.returncode == 1
    last = run.stdout.strip().splitlines()[-1:] or [run.stderr.strip()[-200:]]
    print("caught" if caught else "MISSED", mutation.name, "|", last[0][:90], flush=True)
    return caught


if __name__ == "__main__":
    main()
