"""What a dataset loses, summed up: how often each code came, with the ids of a few rows."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.core.loss_codes import Severity
from dragoman.datasets.rows import TranslatedRow

_MOST_ROWS = 5  # that are named for each code
_MOST_ERRORS = 100


class CodeCount(Struct):
    """How often a loss came; `rows` names the first few, `where` and `why` are those of the first."""

    severity: Severity
    where: str
    why: str
    count: int = 0
    row_count: int = 0
    rows: list[str] = []


class LossReport(Struct):
    """`rows` that were read, and those `failed` with an error; `codes` by code; the first `errors` by row."""

    rows: int = 0
    failed: int = 0
    codes: dict[str, CodeCount] = {}
    errors: dict[str, str] = {}

    def add(self, id: str, row: TranslatedRow) -> None:
        self.rows += 1
        if row.error is not None:
            self.failed += 1
            if len(self.errors) < _MOST_ERRORS:
                self.errors[id] = row.error
        if not row.losses:
            return
        seen: set[str] = set()
        for loss in row.losses:
            code = loss.code or loss.kind
            entry = self.codes.get(code)
            if entry is None:
                entry = self.codes[code] = CodeCount(loss.severity, loss.where, loss.why)
            entry.count += 1
            if code not in seen:
                seen.add(code)
                entry.row_count += 1
                if len(entry.rows) < _MOST_ROWS:
                    entry.rows.append(id)

    def merge(self, other: LossReport) -> None:
        self.rows += other.rows
        self.failed += other.failed
        self.errors = dict([*self.errors.items(), *other.errors.items()][:_MOST_ERRORS])
        for code, more in other.codes.items():
            entry = self.codes.setdefault(code, CodeCount(more.severity, more.where, more.why))
            entry.count += more.count
            entry.row_count += more.row_count
            entry.rows = [*entry.rows, *more.rows][:_MOST_ROWS]

    @classmethod
    def merge_all(cls, reports: Iterable[LossReport]) -> LossReport:
        total = cls()
        for report in reports:
            total.merge(report)
        return total

    def by_weight(self) -> list[tuple[str, CodeCount]]:
        """The codes, material ones first, then by the number of rows."""
        order = ("material", "minor", "cosmetic")
        return sorted(
            self.codes.items(), key=lambda each: (order.index(each[1].severity), -each[1].row_count)
        )
