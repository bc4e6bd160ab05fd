"""A project to work in, something outside of it that must stay out of reach, and the tools."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.values import ToolOutcome
from dragoman.toolkit import standard_tools

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da6364f8ffbf1e00058401ff"
    "2b2b3b8f0000000049454e44ae426082"
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("TODO secret")
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# Project Title\nThis is a sample project.\n")
    (folder / "src" / "a.ts").write_text("one\n  // TODO: refactor\n")
    (folder / "src" / "b.ts").write_text("// TODO: add tests\n")
    (folder / "src" / "c.py").write_text("# TODO: type\n")
    (folder / "dot.png").write_bytes(PNG)
    (folder / "paper.pdf").write_bytes(b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n%%EOF\n")
    (folder / "way out").symlink_to(outside)
    (folder / "file out").symlink_to(outside / "secret.txt")
    (folder / "inner").symlink_to(folder / "src")
    return folder


Use = Callable[..., ToolOutcome]


@pytest.fixture
def use(root: Path) -> Use:
    """use("read_file", absolute_path=…); what is no argument of the tool is an option of the toolkit."""

    def used(name: str, options: dict[str, Any] | None = None, /, **arguments: Any) -> ToolOutcome:
        tools = {tool.name: tool for tool in standard_tools(root, **(options or {}))}
        return asyncio.run(tools[name].acall(arguments))

    return used
