"""Arrow tables in and out: columns of JSON text or of structs, and back in the form in which they came.

Arrow gives all structs of a column the same fields and fills those that a row did not have with null. These
nulls are not of the wire and are left out. In JSON text nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.optional import require
from dragoman.datasets.rows import TranslatedRow

require("datasets")
pa: Any = import_module("pyarrow")  # it has no types
Table = Any  # pyarrow.Table or RecordBatch
Column = Any  # pyarrow.Array or ChunkedArray
DataType = Any

OUTPUT = ("body", "losses", "error")
LOSS = pa.struct([("code", pa.string()), ("severity", pa.string()), ("where", pa.string())])
_PIECE = 1000  # rows that are Python values at a time


def rows_of(table: Table, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows, with those of `columns` that the table has."""
    present = [name for name in columns if name in table.schema.names]
    for start in range(0, table.num_rows, _PIECE):
        piece = table.slice(start, _PIECE)
        values = [_values(piece.column(name)) for name in present]
        for row in zip(*values, strict=True):
            yield dict(zip(present, row, strict=True))


def without(table: Table, columns: Sequence[str]) -> dict[str, Column]:
    """The other columns, which stay as they are."""
    names = [name for name in table.schema.names if name not in columns and name not in OUTPUT]
    return {name: table.column(name) for name in names}


def output_columns(rows: Sequence[TranslatedRow], kind: DataType) -> dict[str, Column]:
    """`kind` is the type of the conversation that came in; the body takes the same form."""
    return {
        "body": _bodies([row.body for row in rows], kind),
        "losses": _losses(rows),
        "error": pa.array([row.error for row in rows], pa.string()),
    }


def is_text(kind: DataType) -> bool:
    return _is_string(kind) or _is_binary(kind)


def conversation_type(schema: Any, column: str) -> DataType:
    """The type of the column with the conversation, which must be there."""
    if column not in schema.names:
        raise ConfigError(no_column(column, "the table has", schema.names))
    if schema.names.count(column) > 1:
        raise ConfigError(f"several columns are called {column!r}")
    return _plain(schema.field(column).type)


def no_column(column: str, who: str, names: Sequence[str]) -> str:
    given = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"no column {column!r}: {who} {given}. Name the one with the conversation: column= or --column."


def _values(column: Column) -> list[Any]:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):  # arrow.json
        column, kind = column.cast(kind.storage_type), kind.storage_type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if _is_string(kind):  # as bytes, which the parser takes: nothing is copied here
        return column.cast(pa.large_binary() if kind == pa.large_string() else pa.binary()).to_pylist()
    if is_text(kind):
        return column.to_pylist()
    try:
        return [_without_nulls(value) for value in column.to_pylist(maps_as_pydicts="strict")]
    except KeyError:  # a map that holds a key twice, is the error of its row alone
        return [_without_nulls(_of_maps(value)) for value in column]


def _of_maps(value: Any) -> Any:
    try:
        return value.as_py(maps_as_pydicts="strict")
    except KeyError:
        return value.as_py()  # lists of pairs, where objects are expected


def _plain(kind: DataType) -> DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _without_nulls(value: Any) -> Any:
    if jsontext.is_object(value):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if jsontext.is_array(value):
        return [_without_nulls(inner) for inner in value]
    return value


def _bodies(bodies: list[bytes | None], kind: DataType) -> Column:
    if is_text(kind):
        return pa.array(bodies, pa.large_binary() if _is_large(kind) else pa.binary()).cast(kind)
    values = [None if body is None else jsontext.decode(body) for body in bodies]
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ConfigError(
            f"the bodies do not fit into structs, which all have the same fields ({error}). "
            "Use body='text' to get them as JSON text."
        ) from None


def _losses(rows: Sequence[TranslatedRow]) -> Column:
    offsets = [0]
    codes: list[str] = []
    severities: list[str] = []
    places: list[str] = []
    for row in rows:
        for loss in row.losses:
            codes.append(loss.code or loss.kind)
            severities.append(loss.severity)
            places.append(loss.where)
        offsets.append(len(codes))
    columns = [pa.array(each, pa.string()) for each in (codes, severities, places)]
    structs = pa.StructArray.from_arrays(columns, fields=list(LOSS))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


def _is_string(kind: DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_binary(kind: DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _is_large(kind: DataType) -> bool:
    return pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
