"""The same rows give the same bytes, losses and errors, whoever calls the map (Ray: test_ray.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets.conversations import body
from dragoman import DragomanError, Exchange
from dragoman.datasets import RowTranslator, Translation, translate, translate_files

LAYOUTS = "openai-chat", "anthropic", "body"
TEXTS = [json.dumps(body(number)) for number in range(60)]
TABLE = pa.table({"body": TEXTS})
Made = list[dict[str, Any]]


def loop() -> Made:
    """What one would write by hand."""
    made: Made = []
    for text in TEXTS:
        exchange = Exchange("openai-chat", "anthropic", transcript=True)
        try:
            row = {"body": exchange.request_bytes(text.encode()).decode(), "error": None}
        except DragomanError as error:
            row = {"body": None, "error": str(error)}
        made.append(row | {"losses": losses(exchange.losses)})
    return made


def losses(given: Any) -> list[dict[str, str]]:
    return [{"code": loss.code, "severity": loss.severity, "where": loss.where} for loss in given]


def local(folder: Path) -> Made:
    """Files, and a process for each core."""
    pq.write_table(TABLE, folder / "in.parquet")
    translate_files([folder / "in.parquet"], folder / "out", Translation(*LAYOUTS), shard_rows=25, workers=2)
    return pq.read_table([*sorted((folder / "out").glob("part-*"))], columns=[*loop()[0]]).to_pylist()


def batches(_: Path) -> Made:
    return [row for each in TABLE.to_batches(17) for row in translate(each, *LAYOUTS).to_pylist()]


def processes(_: Path) -> Made:
    rows: list[dict[str, Any]] = TABLE.to_pylist()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        made = pool.map(RowTranslator(Translation(*LAYOUTS)), rows, chunksize=17)
        return [
            {"body": row.body and row.body.decode(), "error": row.error, "losses": losses(row.losses)}
            for row in made
        ]


def frames(_: Path) -> Made:
    def change(frame: polars.DataFrame) -> polars.DataFrame:
        return polars.DataFrame(translate(frame, *LAYOUTS))

    frame = polars.DataFrame({"body": TEXTS}).lazy()
    return frame.map_batches(change, validate_output_schema=False).collect().to_dicts()


def on_daft(_: Path) -> Made:
    daft: Any = pytest.importorskip("daft", reason="Daft is not installed: pip install --no-deps daft tqdm")
    fields = pa.struct([*translate(TABLE, *LAYOUTS).schema])

    @daft.func.batch(return_dtype=daft.DataType.from_arrow_type(fields))
    def change(texts: Any) -> Any:
        return translate(pa.table({"body": texts.to_arrow()}), *LAYOUTS).to_struct_array().combine_chunks()

    made = daft.from_arrow(TABLE).select(change(daft.col("body")).alias("row"))
    return [row["row"] for row in made.to_pylist()]


ENGINES: dict[str, Callable[[Path], Made]] = {
    "local": local,
    "pyarrow": batches,
    "multiprocessing": processes,
    "polars": frames,
    "daft": on_daft,
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_every_engine_gives_the_bytes_of_a_bare_loop(engine: Callable[[Path], Made], tmp_path: Path) -> None:
    assert engine(tmp_path) == loop()
