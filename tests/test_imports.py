"""What an import loads; `python -m bench.imports` measures how long it takes."""

import subprocess
import sys

import pytest

import dragoman

HEAVY = {
    "import dragoman": ("dragoman.pipeline", "dragoman.dialects", "dragoman.client", "httptools", "asyncio"),
    "import dragoman.client, dragoman.exchange": ("dragoman.datasets", "pyarrow", "ray"),
    "import dragoman.datasets": ("pyarrow", "ray", "dragoman.client", "httptools"),
    "from dragoman import run": ("dragoman.gateway", "dragoman.toolkit", "pydantic", "rich", "mcp", "httpx2"),
    "import dragoman.cli": ("dragoman.pipeline", "dragoman.client", "dragoman.gateway", "rich"),
}


@pytest.mark.parametrize("statement, heavy", HEAVY.items(), ids=HEAVY)
def test_heavy_modules_are_loaded_when_they_are_used(statement: str, heavy: tuple[str, ...]):
    program = f"import sys; {statement}; print(*(name for name in {heavy!r} if name in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert loaded.split() == []


def test_every_public_name_can_be_loaded():
    assert [name for name in dragoman.__all__ if not hasattr(dragoman, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        dragoman.nothing  # noqa: B018


def test_the_public_surface_is_closed() -> None:
    shown = {name for name in dir(dragoman) if not name.startswith("_")}
    assert shown == {name for name in dragoman.__all__ if not name.startswith("_")}
