"""What an import found: each field of the source is carried over, or named here with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from dragoman.core.jsontext import is_array, is_object

Grade = Literal["exact", "approximate", "by hand", "unsupported"]


class Finding(Struct, frozen=True):
    """`path` is the place in the source, `what` what became of it, `advice` what you can do."""

    grade: Grade
    path: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.grade}: {self.path}: {self.what}" + (f". {self.advice}" if self.advice else "")


class Findings:
    def __init__(self) -> None:
        self.items: list[Finding] = []

    def add(self, grade: Grade, path: str, what: str, advice: str = "") -> None:
        finding = Finding(grade, path, what, advice)
        if finding not in self.items:
            self.items.append(finding)

    def add_once(self, grade: Grade, path: str, what: str) -> None:
        """Where many fields say the same, the first one is named."""
        if all(what != each.what for each in self.items):
            self.add(grade, path, what)


class SourceTable:
    """A table of the source. What is taken from it was read; `report_rest` names all that nobody read."""

    def __init__(self, value: Any, path: str, findings: Findings) -> None:
        self.path, self.findings = path, findings
        self._fields: dict[str, Any] = {}
        if is_object(value):
            self._fields = {str(name): field for name, field in value.items() if field is not None}
        elif value is not None:
            findings.add("unsupported", path, "expected a table", "Correct the source.")

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def place(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str) -> Any:
        """The field, or None."""
        return self._fields.pop(name, None)

    def look(self, name: str) -> Any:
        """The field, which can be taken once more."""
        return self._fields.get(name)

    def fill(self, other: Any) -> None:
        """The fields of `other` that are not there yet."""
        if is_object(other):
            self._fields = {**{str(name): value for name, value in other.items()}, **self._fields}

    def is_wild(self, name: str) -> bool:
        """Whether the table of that name is for every model of every provider."""
        inner = self._fields.get(name)
        return is_object(inner) and inner.get("model") == "*"

    def text(self, name: str) -> str:
        """A field that is a scalar, as text."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return (value or "").strip()
        if isinstance(value, int | float):
            return str(value)
        self.report("unsupported", name, "expected text", "Correct the source.")
        return ""

    def number(self, name: str) -> float | None:
        value = self.take(name)
        try:
            return None if value is None or isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            self.report("by hand", name, f"{value!r} is not a number", "Set the value in dragoman.toml.")
            return None

    def table(self, name: str) -> SourceTable:
        return SourceTable(self.take(name), self.place(name), self.findings)

    def tables(self, name: str) -> list[SourceTable]:
        value = self.take(name)
        if value is None:
            return []
        listed = value if is_array(value) else [value]
        return [
            SourceTable(each, f"{self.place(name)}[{index}]", self.findings)
            for index, each in enumerate(listed)
        ]

    def names(self) -> list[str]:
        """Of the fields that nobody took."""
        return list(self._fields)

    def items(self) -> Iterator[tuple[str, Any]]:
        """All that is left, taken now."""
        while self._fields:
            name = next(iter(self._fields))
            yield name, self._fields.pop(name)

    def report(self, grade: Grade, name: str, what: str, advice: str = "") -> None:
        self.findings.add(grade, self.place(name), what, advice)

    def report_rest(self, what: str = "dragoman has no such setting") -> None:
        for name, _ in self.items():
            self.report("unsupported", name, what, "Leave it out, or say what you need it for.")
