"""The directory that the tools live in. A path is resolved first, links too, and refused if it leads out.

Files are then opened one component at a time without following links, so a directory that is swapped
for a link between the check and the opening leads nowhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.core.errors import DragomanError

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_PLAIN = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | _NO_LINK | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class Refused(DragomanError):
    """What a tool does not do, and why; the model reads it as the result."""


class Root:
    """A directory and what is in it. Relative paths begin here."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        if not self.path.is_dir():
            raise Refused(f"{path} is not a directory")

    def inside(self, given: str) -> Path:
        """The real path that `given` means, which need not exist."""
        if "\0" in given:
            raise Refused("a path has no NUL")
        real = Path(os.path.realpath(self.path / given))
        if not real.is_relative_to(self.path):
            raise Refused(f"{given} is outside of {self.path}")
        return real

    def folder(self, given: str) -> Path:
        found = self.inside(given)
        if not found.is_dir():
            raise Refused(f"{given} is not a directory")
        return found

    def read(self, given: str, most: int) -> bytes:
        """The whole of a regular file that has at most `most` bytes."""
        with _one_line_errors(given), os.fdopen(self._regular(given, os.O_RDONLY, most), "rb") as file:
            return file.read()

    def write(self, given: str, data: bytes) -> None:
        """Replace the content of a file; directories on the way are made."""
        with _one_line_errors(given), os.fdopen(self._regular(given, os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.truncate()
            file.write(data)

    def _regular(self, given: str, flags: int, most: int | None = None) -> int:
        opened = self._open(given, flags)
        try:
            _check(given, os.fstat(opened), most)
        except Refused:
            os.close(opened)
            raise
        return opened

    def _open(self, given: str, flags: int) -> int:
        path = self.inside(given)
        if path == self.path:
            raise Refused(f"{given} is a directory")
        if os.open not in os.supports_dir_fd:
            if flags & os.O_CREAT:
                path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags | _PLAIN, 0o666)
        *parents, name = path.relative_to(self.path).parts
        folder = os.open(self.path, _FOLDER)
        try:
            for parent in parents:
                folder = _enter(folder, parent, bool(flags & os.O_CREAT))
            return os.open(name, flags | _PLAIN, 0o666, dir_fd=folder)
        finally:
            os.close(folder)


def _enter(folder: int, name: str, make: bool) -> int:
    """The directory `name` in `folder`, which is closed only once there is another to stand in."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def _check(given: str, found: os.stat_result, most: int | None = None) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise Refused(f"{given} is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{given} is not a regular file")
    if most is not None and found.st_size > most:
        raise Refused(f"{given} has {found.st_size} bytes; at most {most} are read")


@contextmanager
def _one_line_errors(given: str) -> Generator[None]:
    """An error of the system becomes one line, with the path as the model wrote it."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{given}: {error.strerror or error}") from None
