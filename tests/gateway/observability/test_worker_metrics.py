"""The folder in which workers leave their numbers: it goes with them, or with the next gateway."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.gateway.observability.metrics import empty_snapshot
from dragoman.gateway.observability.metrics_page import WorkerMetrics, sweep


@pytest.fixture(scope="module")
def dead() -> int:
    """A number that was a process a moment ago."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def left_behind(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def test_the_folders_of_dead_parents_are_swept(tmp_path: Path, dead: int) -> None:
    gone = left_behind(tmp_path / f"dragoman-1-{dead}", "7.numbers", "8.draft")
    kept = [
        left_behind(tmp_path / f"dragoman-1-{os.getpid()}", "7.numbers"),
        left_behind(tmp_path / f"dragoman-12-{dead}", "7.numbers"),
        left_behind(tmp_path / "dragoman-1-notes", "7.numbers"),
    ]
    (tmp_path / f"dragoman-1-{dead}0000").symlink_to(kept[2])
    sweep(tmp_path, "dragoman-1-")
    assert not gone.exists()
    assert all((folder / "7.numbers").exists() for folder in kept)


def test_what_is_not_ours_stays(tmp_path: Path, dead: int) -> None:
    folder = left_behind(tmp_path / f"dragoman-1-{dead}", "7.numbers", "letters.txt")
    sweep(tmp_path, "dragoman-1-")
    assert [path.name for path in folder.iterdir()] == ["letters.txt"]


def test_the_last_one_takes_the_folder_along(tmp_path: Path, dead: int) -> None:
    folder = left_behind(tmp_path / "d", f"{dead}.numbers")
    siblings = WorkerMetrics(folder)
    siblings.write(empty_snapshot())
    assert len(list(folder.iterdir())) == 2
    siblings.remove()
    assert not folder.exists()


def test_the_folder_stays_as_long_as_a_sibling_lives(tmp_path: Path) -> None:
    folder = left_behind(tmp_path / "d", f"{os.getppid()}.numbers")
    siblings = WorkerMetrics(folder)
    siblings.write(empty_snapshot())
    siblings.remove()
    assert [path.name for path in folder.iterdir()] == [f"{os.getppid()}.numbers"]


def test_nothing_is_written_where_somebody_put_a_link(tmp_path: Path) -> None:
    private = left_behind(tmp_path / "private")
    (tmp_path / "d").symlink_to(private)
    WorkerMetrics(tmp_path / "d").write(empty_snapshot())
    assert not list(private.iterdir())
