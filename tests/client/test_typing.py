"""What a type checker makes of a user's program: in strict mode it finds these mistakes, and nothing else."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("user_program.py")
# Mistake -> the rule that finds it
MISTAKES = {
    'generate("Hi", model, temprature=0.5)': "reportCallIssue",
    'generate("Hi", model, temperature="hot")': "reportArgumentType",
    'generate("Hi", model, effort="huge")': "reportArgumentType",
    'generate("Hi", model, timeout="1s")': "reportArgumentType",
    'generate("Hi", model, output_mode="yaml")': "reportArgumentType",
    'generate("Hi", model, tool_choice=5)': "reportArgumentType",
    'generate("Hi")': "reportCallIssue",
    'print(generate("Hi", model).contents)': "reportAttributeAccessIssue",
    'print(generate("Hi", model).usage.inputs)': "reportAttributeAccessIssue",
    'print(generate("Hi", model, output=City).output.inhabitant)': "reportAttributeAccessIssue",
    'print(run("Hi", model, output=list[City]).output[0].nam)': "reportAttributeAccessIssue",
    'print(generate("Hi", model, output=Point).output.x.upper())': "reportAttributeAccessIssue",
    'run("Hi", model, max_turn=3)': "reportCallIssue",
    'run("Hi", model, max_turns="3")': "reportArgumentType",
    'run("Hi", model, hooks=print)': "reportArgumentType",
    'print(run("Hi", model).stopped == "finished")': "reportUnnecessaryComparison",
    'print(agenerate("Hi", model).content)': "reportAttributeAccessIssue",
    'UserMessage("Hi", image=["a"])': "reportCallIssue",
    'UserMessage("Hi", images=[1])': "reportArgumentType",
    "tool(time_out=5)": "reportCallIssue",
    'print(RunContext(Deps("F")).deps.units)': "reportAttributeAccessIssue",
    'Deps("K")': "reportArgumentType",
    "Conversation(modle=model)": "reportCallIssue",
    'Conversation(model=model).ask("Hi", temprature=1)': "reportCallIssue",
    'Provider("x", protocl="anthropic")': "reportCallIssue",
    'generate_many(["Hi"], model, concurency=3)': "reportCallIssue",
    'for r in generate_many(["Hi"], model, output=City): print(r.result and r.result.output.nam)': (
        "reportAttributeAccessIssue"
    ),
    'print(models("demo")[0].contextwindow)': "reportAttributeAccessIssue",
}


def diagnostics(folder: Path, source: str) -> list[tuple[int, str]]:
    """The lines (from 1) that pyright complains about, with its rules."""
    pytest.importorskip("pyright", reason="pyright is in the dev group")
    (folder / "program.py").write_text(source)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "pythonVersion": "3.11"}')
    ran = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(ran.stdout)["generalDiagnostics"]
    complaints = [(each["range"]["start"]["line"] + 1, each.get("rule", each["message"])) for each in found]
    named = {line for line, rule in complaints if not rule.startswith("reportUnknown")}
    # what follows from a mistake on the same line is unknown too
    return [each for each in complaints if not (each[1].startswith("reportUnknown") and each[0] in named)]


def test_mistakes_are_found_and_nothing_else(tmp_path: Path):
    program = PROGRAM.read_text() + "\n\ndef mistakes() -> None:\n"
    first = program.count("\n") + 1
    source = program + "".join(f"    {mistake}\n" for mistake in MISTAKES)
    expected = [(first + index, rule) for index, rule in enumerate(MISTAKES.values())]
    assert diagnostics(tmp_path, source) == expected


def test_the_program_runs(capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(PROGRAM), run_name="__main__")
    assert "True" in capsys.readouterr().out
