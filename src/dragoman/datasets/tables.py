"""`translate` and `report`: a table in, a table or a sum of losses out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, cast

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.loss_codes import CODES
from dragoman.core.losses import Loss
from dragoman.datasets.columns import Table, conversation_type, is_text, output_columns, pa, rows_of, without
from dragoman.datasets.loss_report import LossReport
from dragoman.datasets.rows import RowTranslator, TranslatedRow, Translation

Columns = Mapping[str, Sequence[Any]]


class TranslateOptions(TypedDict, total=False):
    """What `translate` takes beside the table and the two layouts; see `Translation`."""

    fields: tuple[str, ...] | None
    dialect: str | None
    images: Literal["native", "summary"]
    transcript: bool


def translate(
    table: Any,
    source: str,
    target: str,
    column: str = "",
    *,
    body: Literal["same", "text"] = "same",
    **options: Unpack[TranslateOptions],
) -> Any:
    """The table with the columns `body`, `losses` and `error` in place of the conversation.

    `table` is a pyarrow Table or RecordBatch, anything that Arrow can import (a frame of Polars or pandas),
    or a dict of lists, which gives a dict of lists. Bodies take the form in which the conversations came:
    JSON text, structs or dicts; with `body="text"` they are JSON text. A row that is wrong has an `error`
    instead of a body. `losses` holds structs of `code`, `severity` and `where`.
    """
    translator = RowTranslator(Translation(source, target, column, **options))
    if isinstance(table, Mapping):
        return _translate_lists(cast(Columns, table), translator, body)
    return translate_table(arrow_table(table), translator, body)


def translate_table(table: Table, translate: RowTranslator, body: Literal["same", "text"]) -> Table:
    kind = conversation_type(table.schema, translate.column)
    if body == "text" and not is_text(kind):
        kind = pa.string()
    rows = [translate(row) for row in rows_of(table, translate.columns)]
    return table_like(table, without(table, translate.columns) | output_columns(rows, kind))


def reports_of(tables: Iterable[Table], id: str) -> Iterator[LossReport]:
    """The losses and errors of tables that were translated."""
    first = 0
    for table in tables:
        report = LossReport()
        losses, errors = table.column("losses").to_pylist(), table.column("error").to_pylist()
        for name, lost, error in zip(ids_of(table, id, first), losses, errors, strict=True):
            report.add(name, TranslatedRow(None, [_loss(each) for each in lost or ()], error))
        first += table.num_rows
        yield report


def _loss(value: Mapping[str, str]) -> Loss:
    code = value["code"]
    kind: Any = code.rpartition(".")[2]
    severity: Any = value["severity"]
    return Loss(kind, value["where"], CODES[code].meaning if code in CODES else "", code, severity)


def report(
    table: Any,
    source: str,
    target: str,
    column: str = "",
    *,
    id: str = "id",
    **options: Unpack[TranslateOptions],
) -> LossReport:
    """What `translate` would lose; rows are named by their column `id`, or counted from 0."""
    translator = RowTranslator(Translation(source, target, column, **options))
    arrow = arrow_table(pa.table(table) if isinstance(table, Mapping) else table)
    conversation_type(arrow.schema, translator.column)
    total = LossReport()
    for name, row in zip(ids_of(arrow, id), rows_of(arrow, translator.columns), strict=True):
        total.add(name, translator(row))
    return total


def table_like(table: Table, columns: Mapping[str, Any]) -> Table:
    kind = pa.Table if isinstance(table, pa.Table) else pa.RecordBatch
    return kind.from_arrays([*columns.values()], names=[*columns])


def arrow_table(table: Any) -> Table:
    if isinstance(table, pa.Table | pa.RecordBatch):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise ConfigError(f"expected a table of Arrow or what becomes one, got {type(table).__name__}")


def ids_of(table: Table, id: str, first: int = 0) -> Iterator[str]:
    """What names each row in reports: its column `id`, or its number from `first` on."""
    if id in table.schema.names:
        return map(str, table.column(id).to_pylist())
    return map(str, range(first, first + table.num_rows))


def _translate_lists(table: Columns, translate: RowTranslator, body: str) -> dict[str, list[Any]]:
    if translate.column not in table:
        raise ConfigError(f"no column {translate.column!r}: the table has {', '.join(table)}")
    used = [name for name in translate.columns if name in table]
    values = zip(*(table[name] for name in used), strict=True)
    rows = [(value[0], translate(dict(zip(used, value, strict=True)))) for value in values]
    kept = {name: [*column] for name, column in table.items() if name not in used}
    return kept | {
        "body": [_like(given, row, body) for given, row in rows],
        "losses": [
            [
                {"code": each.code or each.kind, "severity": each.severity, "where": each.where}
                for each in row.losses
            ]
            for _, row in rows
        ],
        "error": [row.error for _, row in rows],
    }


def _like(given: Any, row: TranslatedRow, body: str) -> Any:
    """The body in the form in which the conversation came."""
    if row.body is None:
        return None
    match given:
        case bytes():
            return row.body
        case str():
            return row.body.decode()
        case _:
            return row.body.decode() if body == "text" else jsontext.decode(row.body)
