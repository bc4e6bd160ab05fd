"""The wire watch finds what an SDK names and our code does not. The SDKs here are our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tools import wire_watch


class Block(TypedDict, total=False):
    type: Literal["text", "hologram"]
    text: str
    inner: Block | None


class Reply(BaseModel):
    blocks: Annotated[list[Block], "anything"]
    stop_reason: Literal["end", "vanished"] | None = None
    long_name: int = Field(alias="longName")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wire whose SDK has the types above, and a folder of code that speaks it."""
    module: Any = ModuleType("toy_sdk")
    module.Reply = Reply
    monkeypatch.setitem(sys.modules, "toy_sdk", module)
    monkeypatch.setattr(wire_watch, "PROTOCOLS", tmp_path)
    monkeypatch.setattr(wire_watch, "ACCEPTED", tmp_path / "accepted.toml")
    monkeypatch.setattr(wire_watch, "WIRES", {"toy": ("msgspec", ("toy",), ("toy_sdk:Reply",))})
    (tmp_path / "toy").mkdir()
    return tmp_path


def test_what_a_type_and_all_types_in_it_name() -> None:
    assert set(wire_watch.names_of_type(Reply)) == {
        *("blocks", "stop_reason", "longName", "type", "text", "inner"),
        *("stop_reason: end", "stop_reason: vanished", "type: text", "type: hologram"),
    }


def test_what_is_new(toy: Path) -> None:
    code = '"""A docstring that says hologram."""\nKINDS = {"text": 1, "blocks type stop_reason": b"inner"}\n'
    (toy / "toy" / "parts.py").write_text(f"{code}class Wire:\n    longName: int\n\nEND = 'end'\n")
    assert wire_watch.new_names("toy") == ["stop_reason: vanished", "type: hologram"]


def test_what_was_accepted_is_not_new_again(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["wire_watch.py"])
    assert wire_watch.main() == 1
    assert "- `type: hologram`" in capsys.readouterr().out
    (toy / "toy" / "parts.py").write_text('KINDS = ["type"]')
    monkeypatch.setattr(sys, "argv", ["wire_watch.py", "--accept", "Toys only"])
    assert wire_watch.main() == 0
    monkeypatch.setattr(sys, "argv", ["wire_watch.py"])
    assert wire_watch.main() == 0
    assert "nothing new" in capsys.readouterr().out
    (names,) = wire_watch.accepted_names()["toy"].values()
    assert len(names) == 9


def test_what_our_code_names_by_now_is_taken_out(toy: Path) -> None:
    wire_watch.accept("Toys only")
    assert len(wire_watch.accepted_names()["toy"]["Toys only"]) == 10
    (toy / "toy" / "parts.py").write_text(
        'KINDS = "blocks type inner text longName stop_reason end text hologram"'
    )
    wire_watch.accept("Toys only")
    assert wire_watch.accepted_names() == {"toy": {"Toys only": ["stop_reason: vanished"]}}


def test_each_accepted_name_has_a_reason_and_is_needed() -> None:
    for wire, groups in wire_watch.accepted_names().items():
        known = wire_watch.known_names(wire)
        for reason, names in groups.items():
            assert reason[0].isupper()
            assert len(reason.split()) > 3
            assert [name for name in names if name.rpartition(": ")[2] in known] == []


def test_every_wire_has_its_folder() -> None:
    for _, folders, roots in wire_watch.WIRES.values():
        assert roots
        for folder in folders:
            assert list(wire_watch.named_in(wire_watch.PROTOCOLS / folder))
    assert wire_watch.accepted_names().keys() == wire_watch.WIRES.keys()


# The workflow, with programs of our own in place of make and gh

WORKFLOW = wire_watch.ROOT / ".github" / "workflows" / "wire-watch.yml"
REPORTS = {
    "nothing new": ("## toy (sdk 1): nothing new\n", 0, "", []),
    "the first time": ("## toy (sdk 1): 1 new\n- `a`\n", 2, "", ["issue list", "issue create"]),
    "once more": ("## toy (sdk 1): 2 new\n- `a`\n- `b`\n", 2, "7", ["issue list", "issue edit 7"]),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_workflow_opens_one_issue(name: str, tmp_path: Path) -> None:
    report, code, known, expected = REPORTS[name]
    assert run_steps(tmp_path, report, code, known) == expected
    assert (tmp_path / "report.md").read_text() == report


def test_a_watch_that_failed_fails_the_workflow(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run_steps(tmp_path, "", 2, "")


def run_steps(folder: Path, report: str, code: int, known: str) -> list[str]:
    """What the steps asked of GitHub; `known`: the number of the issue that is open."""
    (folder / "said").write_text(report)
    write_program(folder / "make", f'cat "{folder}/said"; exit {code}')
    write_program(folder / "gh", f'echo "$1 $2 $3" >> "{folder}/asked"; [ "$2" != list ] || echo "{known}"')
    (folder / "asked").touch()
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "GITHUB_OUTPUT": f"{folder}/output"}
    watch, issue = [
        step for step in yaml.safe_load(WORKFLOW.read_text())["jobs"]["watch"]["steps"] if "run" in step
    ]
    run_step(watch["run"], folder, environ)
    assert issue["if"] == "steps.watch.outputs.new == 'true'"
    if "new=true" in (folder / "output").read_text():
        run_step(issue["run"], folder, {**environ, "TITLE": issue["env"]["TITLE"]})
    asked = (folder / "asked").read_text().splitlines()
    return [" ".join(word for word in line.split() if not word.startswith("--")) for line in asked]


def run_step(script: str, folder: Path, environ: dict[str, str]) -> None:
    subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environ, check=True, capture_output=True)


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
