"""The maps on Ray Data: the same bytes as without it, and every row once whoever is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from datasets.conversations import body, ids, write_lines, write_parquet
from dragoman import DragomanError, Provider
from dragoman.datasets import Translation, report, translate, translate_files

ray = pytest.importorskip("ray", reason="Ray has no package for this Python or machine")
ray_data: Any = pytest.importorskip("ray.data")
maps: Any = pytest.importorskip("dragoman.datasets.ray")
ROWS = [body(number) for number in range(200)]
TABLE = pa.table({"id": [str(i) for i in range(200)], "body": [json.dumps(row) for row in ROWS]})


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray_data.DataContext.get_current().enable_progress_bars = False
    try:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=150_000_000,
            _node_ip_address="127.0.0.1",
        )
    except (OSError, RuntimeError) as error:
        pytest.skip(f"Ray does not start here: {error}")
    yield
    ray.shutdown()


def by_id(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: int(row["id"]))


def test_the_bytes_are_those_of_one_process() -> None:
    dataset = maps.translate(ray_data.from_arrow(TABLE).repartition(3), "openai-chat", "anthropic", "body")
    dataset = dataset.materialize()
    assert by_id(dataset.take_all()) == translate(TABLE, "openai-chat", "anthropic", "body").to_pylist()
    found, want = maps.report(dataset), report(TABLE, "openai-chat", "anthropic", "body")
    assert (found.rows, found.errors) == (200, want.errors)
    assert {code: each.row_count for code, each in found.codes.items()} == {
        code: each.row_count for code, each in want.codes.items()
    }


def test_a_task_reads_what_it_translates(tmp_path: Path) -> None:
    """Ray writes "->" between what one task does. Blocks that are read elsewhere are copied to it."""
    pytest.importorskip("aiohttp", reason="of the extra: without it Ray cannot read several files")
    files = [str(write_parquet(tmp_path / f"{number}.parquet", ROWS)) for number in range(3)]
    made = maps.translate(ray_data.read_parquet(files), "openai-chat", "anthropic", "body")
    made = made.materialize()
    assert "->MapBatches(_translate)" in made.stats()
    want = translate(TABLE, "openai-chat", "anthropic", "body")["body"].to_pylist()
    assert [row["body"] for row in by_id(made.take_all())[::3]] == want


def test_large_blocks_are_translated_piece_by_piece() -> None:
    pieces = [*maps._translate(TABLE, Translation("openai-chat", "anthropic", "body"), "text", rows=90)]
    assert [piece.num_rows for piece in pieces] == [90, 90, 20]
    assert pa.concat_tables(pieces) == translate(TABLE, "openai-chat", "anthropic", "body")
    [empty] = maps._translate(TABLE.slice(0, 0), Translation("openai-chat", "anthropic", "body"), "text")
    assert empty.schema.names == ["id", "body", "losses", "error"]


def test_a_worker_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    mark = str(tmp_path / "killed")

    def kill_once(table: Any) -> Any:
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return table

    dataset = ray_data.from_arrow(TABLE).repartition(3).map_batches(kill_once, batch_format="pyarrow")
    rows = maps.translate(dataset, "openai-chat", "anthropic", "body").take_all()
    assert os.path.exists(mark)
    assert by_id(rows) == translate(TABLE, "openai-chat", "anthropic", "body").to_pylist()


def test_shards_of_files_are_tasks(tmp_path: Path) -> None:
    file, translation = (
        write_parquet(tmp_path / "in.parquet", ROWS),
        Translation("openai-chat", "gemini", "body"),
    )
    found = [
        translate_files([file], tmp_path / engine, translation, shard_rows=60, engine=engine)
        for engine in ("local", "ray")
    ]
    assert found[0] == found[1]
    assert ids(tmp_path / "ray") == [str(i) for i in range(200)]
    for part in (tmp_path / "local").glob("part-*"):
        assert part.read_bytes() == (tmp_path / "ray" / part.name).read_bytes()


def test_what_ends_a_job_is_one_sentence(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.jsonl", ROWS)
    translation = Translation("openai-chat", "anthropic")

    def shorten(_: object) -> None:
        os.truncate(file, 100)

    with pytest.raises(DragomanError, match=r"^\S*in\.jsonl: it is shorter than when the job began$"):
        translate_files(
            [file], tmp_path / "out", translation, shard_rows=9, workers=1, engine="ray", on_progress=shorten
        )


def test_replies_are_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    prompts = [f"Hello {i}" for i in range(39)] + ["Hello [[fault: 400]]"]
    table = pa.table({"id": [str(i) for i in range(40)], "prompt": prompts})
    dataset = ray_data.from_arrow(table).repartition(2)
    first = by_id(maps.generate(dataset, "demo:any", checkpoint=tmp_path, tokens_per_minute=1e9).take_all())
    assert [row["content"] for row in first[:2]] == ["You said: Hello 0", "You said: Hello 1"]
    assert [row["error"] for row in first if row["error"]] == ["demo: bad request"]
    gone = Provider("demo", protocol="anthropic", base_url="http://127.0.0.1:9", api_key="k", tries=1)
    assert by_id(maps.generate(dataset, gone.model("any"), checkpoint=tmp_path).take_all()) == first


def test_actors_share_one_rate() -> None:
    limit = maps._Limit.remote(1e-3)  # one event in 60,000 seconds

    @ray.remote(num_cpus=0)
    def reserve() -> float:
        return ray.get(limit.reserve.remote(1))

    waits = sorted(ray.get([reserve.remote() for _ in range(4)]))
    assert [round(wait / 60_000, 1) for wait in waits] == [0, 1, 2, 3]
