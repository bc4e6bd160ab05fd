"""Datasets on Ray Data: the same maps over its blocks, with one rate limit for all processes.

Both functions are lazy as Ray's own are: nothing runs before the dataset is written or read. Translation
runs in tasks, which take the processors as Ray gives them. Prompts are sent by actors, which keep their
connections and need little of a processor: actors that took a whole one each would leave none for reading the
dataset. A process that dies is replaced by Ray, and the block that it had begins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack, cast

from dragoman.core.errors import ConfigError, DragomanError
from dragoman.core.optional import require
from dragoman.datasets.loss_report import LossReport
from dragoman.datasets.rows import RowTranslator, Translation
from dragoman.datasets.shards import Shard
from dragoman.datasets.tables import BodyForm, TranslateOptions, reports_of, translate_table
from dragoman.datasets.worker import GO_ON, Answer, DatasetJob, ShardTranslator

require("ray")
ray: Any = import_module("ray")
data: Any = import_module("ray.data")
Dataset = Any  # ray.data.Dataset
_ROWS = 1000  # that are translated at a time
_PIECE = 500  # rows of a checkpoint
_SHARE = 0.25  # of a processor, for an actor that mostly waits for replies


class RayOptions(TranslateOptions, total=False):
    """`body` is "text" by default: structs have other fields in each block, and Ray wants the same in all."""

    concurrency: int | None  # tasks at a time
    body: BodyForm


def translate(
    dataset: Dataset, source: str, target: str, column: str = "", **options: Unpack[RayOptions]
) -> Dataset:
    """`dragoman.datasets.translate` over a dataset of Ray."""
    concurrency, body = options.pop("concurrency", None), options.pop("body", "text")
    translation = Translation(source, target, column, **cast(TranslateOptions, options))
    RowTranslator(translation)  # raises ConfigError here, not in an actor
    return dataset.map_batches(
        _translate,
        fn_args=(translation, body),
        batch_size=None,  # a block: with a size, Ray reads in other tasks and sends the blocks from there
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=data.TaskPoolStrategy(concurrency),
    )


def generate(
    dataset: Dataset,
    model: Any,
    column: str = "prompt",
    *,
    actors: int = 2,
    checkpoint: str | Path = "",
    **options: Any,
) -> Dataset:
    """`dragoman.datasets.generate` over a dataset of Ray.

    `concurrency` and the rates of the options are for all actors together. `checkpoint` is a folder that all
    nodes see: what was answered before is not sent again when the job is run again.
    """
    if "retry_failed" in options and not checkpoint:
        raise ConfigError("retry_failed needs a checkpoint, which says what failed")
    rates = [options.pop(name, None) for name in ("requests_per_minute", "tokens_per_minute")]
    limits = [_Limit.remote(rate) if rate else None for rate in rates]
    options["concurrency"] = max(1, options.get("concurrency", 16) // actors)
    return dataset.map_batches(
        _Generate,
        fn_constructor_args=(model, column, options, str(checkpoint), limits),
        batch_size=None,  # a block: it is the same when the job is run again
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=data.ActorPoolStrategy(size=actors),
        num_cpus=_SHARE,
    )


def report(dataset: Dataset, id: str = "id") -> LossReport:
    """The losses and errors of a translated dataset, summed up. This runs it, or reads what was written."""
    names = [name for name in dataset.columns() if name in (id, "losses", "error")]
    batches = dataset.select_columns(names).iter_batches(batch_format="pyarrow", batch_size=_ROWS)
    return LossReport.merge_all(reports_of(batches, id))


def run_shards(job: DatasetJob, todo: Sequence[int], workers: int) -> Generator[tuple[int, LossReport]]:
    """The shards of a job of files as tasks of Ray, whose nodes all see the files."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="ERROR")
    workers = workers or int(ray.cluster_resources().get("CPU", 1))
    kept = ray.put(job)
    waiting = [*reversed(todo)]
    running: dict[Any, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                number = waiting.pop()
                running[_shard.remote(kept, number)] = number
            [done], _ = ray.wait([*running], num_returns=1)
            number = running.pop(done)
            yield number, _report(done, job.shards[number])
    finally:
        for each in running:
            ray.cancel(each, force=True)


@ray.remote(max_retries=3)
def _shard(job: DatasetJob, number: int) -> Answer:
    return ShardTranslator(job).answer(number)


def _report(task: Any, shard: Shard) -> LossReport:
    try:
        answer: Answer = ray.get(task)
    except ray.exceptions.RayError as error:  # its processes died again and again
        raise DragomanError(f"{shard}: {error} {GO_ON}") from None
    if not answer.report:
        raise DragomanError(answer.error)
    return answer.report


def _translate(table: Any, translation: Translation, body: BodyForm, rows: int = _ROWS) -> Iterator[Any]:
    """In pieces, for a block may hold all rows of a dataset."""
    for start in range(0, max(table.num_rows, 1), rows):
        yield translate_table(table.slice(start, rows), _translator(translation), body)


_translator = lru_cache(8)(RowTranslator)  # one for all blocks of a process


@ray.remote(num_cpus=0)
class _Limit:
    """The rate that all actors keep together."""

    def __init__(self, per_minute: float) -> None:
        from dragoman.client.many import RateLimiter

        self._limiter = RateLimiter(per_minute)

    def reserve(self, count: int) -> float:
        return self._limiter.reserve(count)

    def charge(self, count: int) -> None:
        self._limiter.charge(count)


class _SharedLimit:
    """A RateLimit that asks the actor; without one, there is no limit."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def wait(self, count: int = 0) -> None:
        if self._actor and (delay := await self._actor.reserve.remote(count)) > 0:
            await asyncio.sleep(delay)

    def charge(self, count: int) -> None:
        if self._actor and count:
            self._actor.charge.remote(count)


class _Generate:
    def __init__(self, model: Any, column: str, options: Any, checkpoint: str, limits: list[Any]) -> None:
        self._model, self._column, self._options = model, column, options
        self._folder = Path(checkpoint) if checkpoint else None
        self._limits = (_SharedLimit(limits[0]), _SharedLimit(limits[1]))

    def __call__(self, table: Any) -> Any:
        from dragoman.datasets.columns import pa
        from dragoman.datasets.generation import generate_with, key_of, settings_of

        pieces: list[Any] = []
        for start in range(0, max(table.num_rows, 1), _PIECE):
            piece = table.slice(start, _PIECE)
            options: Any = dict(self._options)
            if self._folder:
                self._folder.mkdir(parents=True, exist_ok=True)
                key = key_of(piece.to_pylist(), settings_of(self._model, options))
                options["checkpoint"] = self._folder / f"{key}.jsonl"
            pieces.append(generate_with(piece, self._model, self._column, options, self._limits))
        return pa.concat_tables(pieces)
