"""The wire watch finds what an SDK names and our code does not. The SDKs here are our own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import pytest
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
    monkeypatch.setattr(sys, "argv", ["wire_watch.py", "--accept"])
    assert wire_watch.main() == 0
    monkeypatch.setattr(sys, "argv", ["wire_watch.py"])
    assert wire_watch.main() == 0
    assert "nothing new" in capsys.readouterr().out
    (toy / "toy" / "parts.py").write_text("")
    assert len(wire_watch.accepted_names()["toy"]) == 10


def test_every_wire_has_its_folder() -> None:
    for _, folders, roots in wire_watch.WIRES.values():
        assert roots
        for folder in folders:
            assert list(wire_watch.named_in(wire_watch.PROTOCOLS / folder))
    assert wire_watch.accepted_names().keys() == wire_watch.WIRES.keys()
