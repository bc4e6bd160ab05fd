"""Small mutations of what a remembered conversation depends on; the laws must notice each of them.

    python tools/mutate_memory.py [WORD]      only mutations whose name contains WORD

Each one is made in a copy of the tree, and the laws run there. The exit status is the number of those that
they missed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LAWS = ("tests/laws/test_one_fact_laws.py", "tests/laws/test_history_laws.py")


class Mutation(NamedTuple):
    """`before`, in a file below src/dragoman, becomes `after`."""

    name: str
    file: str
    before: str
    after: str


BY_HAND = (
    Mutation(
        "chat: forget that a message may depend on the one before",
        "protocols/openai_chat/messages.py",
        "    if past and profile.assistant_after_tool:  # there a message depends on the one before\n"
        "        past = None\n",
        "",
    ),
    Mutation("target without the profile", "pipeline.py", "plan.summarise, profile)", "plan.summarise)"),
    Mutation("target without the origin", "pipeline.py", "plan.origin, plan.summarise,", "plan.summarise,"),
    Mutation("target without summarise", "pipeline.py", "plan.origin, plan.summarise,", "plan.origin,"),
    Mutation(
        "chat: key without thinks",
        "protocols/openai_chat/messages.py",
        "past, thinks, alone, losses)",
        "past, '', alone, losses)",
    ),
    Mutation(
        "responses: every item repeats",
        "protocols/openai_responses/messages.py",
        'return item_type(item, "") in _REPEATING',
        "return True",
    ),
    Mutation(
        "ledger: namespaces do not matter",
        "transforms/ledger.py",
        "if any(type(part) is ToolCall and part.namespace for message in new for part in message.parts):",
        "if False:",
    ),
    Mutation(
        "history: the same number of messages is the same messages",
        "core/history.py",
        "return beginning[-1] is messages[-1] and beginning == messages",
        "return beginning[-1] is messages[-1] and len(beginning) == len(messages)",
    ),
    Mutation(
        "gemini: contents with fields of their own",
        "protocols/gemini/messages.py",
        "    if own(message.extras, PROTOCOL_NAME):\n        return None\n    for part",
        "    for part",
    ),
    Mutation(
        "head: key without stream",
        "core/history.py",
        "request.model, request.stream, request.parallel, *others",
        "request.model, request.parallel, *others",
    ),
)


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    missed = [each.name for each in BY_HAND if word in each.name and not is_caught(each)]
    print(f"{len(missed)} missed")
    sys.exit(len(missed))


def is_caught(mutation: Mutation) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        file = tree / "src/dragoman" / mutation.file
        text = file.read_text()
        if text.count(mutation.before) != 1:
            sys.exit(
                f"{mutation.name}: its text stands {text.count(mutation.before)} times in {mutation.file}"
            )
        file.write_text(text.replace(mutation.before, mutation.after))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *LAWS]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    caught = run.returncode == 1
    last = run.stdout.strip().splitlines()[-1:] or [run.stderr.strip()[-200:]]
    print("caught" if caught else "MISSED", mutation.name, "|", last[0][:90], flush=True)
    return caught


if __name__ == "__main__":
    main()
