"""`translate` and `report`: a table in, a table or a sum of losses out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.loss_codes import CODES
from dragoman.core.losses import Loss
from dragoman.datasets.columns import (
    OUTPUT,
    Table,
    conversation_type,
    is_text,
    no_column,
    output_columns,
    pa,
    rows_of,
    without,
)
from dragoman.datasets.loss_report import LossReport
from dragoman.datasets.rows import RowTranslator, TranslatedRow, Translation

BodyForm = Literal["same", "text"]
Row = Mapping[str, Any]


class TranslateOptions(TypedDict, total=False):
    """What `translate` takes beside the table and the two layouts; see `Translation`."""

    fields: tuple[str, ...] | None
    dialect: str | None
    source_dialect: str | None
    images: Literal["native", "summary"]
    transcript: bool


def translate(
    table: Any,
    source: str,
    target: str,
    column: str = "",
    *,
    body: BodyForm = "same",
    **options: Unpack[TranslateOptions],
) -> Any:
    """The table with the columns `body`, `losses` and `error` in place of the conversation.

    `table` is a pyarrow Table or RecordBatch, anything that Arrow can import (a frame of Polars or pandas), a
    dict of lists or a list of dicts, which give their like. Bodies take the form in which the conversations
    came: JSON text, structs or dicts; with `body="text"` they are JSON text. A row that is wrong has an
    `error` instead of a body. `losses` holds structs of `code`, `severity` and `where`.
    """
    translator = RowTranslator(Translation(source, target, column, **options))
    if body not in get_args(BodyForm):
        raise ConfigError(f"body is 'same' or 'text', not {body!r}")
    rows = _plain_rows(table, translator.column)
    if rows is None:
        return translate_table(arrow_table(table), translator, body)
    read = (*translator.columns, *OUTPUT)
    made = [
        {name: value for name, value in row.items() if name not in read} | _translate(row, translator, body)
        for row in rows
    ]
    if not isinstance(table, Mapping):
        return made
    names = [*(name for name in cast(Row, table) if name not in read), *OUTPUT]
    return {name: [row[name] for row in made] for name in names}


def translate_table(table: Table, translate: RowTranslator, body: BodyForm) -> Table:
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
    translator, total = RowTranslator(Translation(source, target, column, **options)), LossReport()
    rows = _plain_rows(table, translator.column)
    if rows is None:
        arrow = arrow_table(table)
        conversation_type(arrow.schema, translator.column)
        named = zip(ids_of(arrow, id), rows_of(arrow, translator.columns), strict=True)
    else:
        named = ((str(row.get(id, number)), row) for number, row in enumerate(rows))
    for name, row in named:
        total.add(name, translator(row))
    return total


def table_like(table: Table, columns: Mapping[str, Any]) -> Table:
    kind = pa.Table if isinstance(table, pa.Table) else pa.RecordBatch
    return kind.from_arrays([*columns.values()], names=[*columns])


def arrow_table(table: Any) -> Table:
    if isinstance(table, pa.Table | pa.RecordBatch):
        return table
    try:
        if isinstance(table, list):
            return pa.Table.from_pylist(table)
        if isinstance(table, Mapping) or hasattr(table, "__arrow_c_stream__"):
            return pa.table(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # pandas keeps values of any type in a column
        raise ConfigError(f"{': '.join(map(str, reversed(error.args)))}. Use JSON text.") from None
    raise ConfigError(f"expected a table of Arrow or what becomes one, got {type(table).__name__}")


def ids_of(table: Table, id: str, first: int = 0) -> Iterator[str]:
    """What names each row in reports: its column `id`, or its number from `first` on."""
    if id in table.schema.names:
        return map(str, table.column(id).to_pylist())
    return map(str, range(first, first + table.num_rows))


def _plain_rows(table: Any, column: str) -> Sequence[Row] | None:
    """Those of a list of dicts, or of a dict of lists; nothing of what is a table of Arrow."""
    if isinstance(table, Mapping):
        columns = cast(Mapping[str, Any], table)
        names, lengths = [*columns], {_length(values) for values in columns.values()}
        if len(lengths) > 1 or None in lengths:
            raise ConfigError(
                "A dict has a list for each column, all of one length. A row is a dict in a list."
            )
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    elif isinstance(table, list | tuple):
        rows = [*cast(Sequence[Any], table)]
        if others := [type(row).__name__ for row in rows if not isinstance(row, Mapping)]:
            raise ConfigError(f"expected a list of dicts, got a list with {others[0]}")
        names = [*dict.fromkeys(name for row in rows for name in row)]
    else:
        return None
    if column not in names and (rows or isinstance(table, Mapping)):
        raise ConfigError(no_column(column, "the table has", names))
    return rows


def _length(values: Any) -> int | None:
    """Of what can be a column."""
    return len(values) if isinstance(values, Sized) and not isinstance(values, str | bytes) else None


def _translate(row: Row, translate: RowTranslator, body: BodyForm) -> dict[str, Any]:
    made = translate(row)
    losses = [
        {"code": each.code or each.kind, "severity": each.severity, "where": each.where}
        for each in made.losses
    ]
    return {"body": _like(row.get(translate.column), made, body), "losses": losses, "error": made.error}


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
