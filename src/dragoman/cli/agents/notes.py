"""What a private gateway has to say: nothing while its agent has the terminal, then what went wrong."""

from __future__ import annotations

from typing import Any

from dragoman.core.jsontext import decode


class Notes:
    """Takes the lines of a journal; `file` keeps them all."""

    def __init__(self, file: str = "") -> None:
        self._file = open(file, "a", encoding="utf-8") if file else None  # noqa: SIM115 - closed in __exit__
        self.exchanges = self.failed = 0
        self._last = ""

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file:
            self._file.close()

    def write(self, line: str) -> None:
        if self._file:
            self._file.write(line + "\n")
            self._file.flush()
        said: Any = decode(line.encode())
        self.exchanges += "status" in said
        if said.get("error"):
            self.failed += 1
            self._last = f"{said.get('status')} from {said.get('provider') or 'dragoman'}: {said['error']}"

    def summary(self) -> str:
        return f"dragoman: {self.failed} of {self.exchanges} exchanges failed, the last with {self._last}"
