"""`python -m bench.datasets`: what a row of a dataset costs beside a bare loop, in one run.

The bare loop is what one would write by hand: lines in, `Exchange.request_bytes`, lines out. One for each
core runs before and after each part of the rows that an engine has, so that other work on the machine slows
both alike. The figures are CPU time for a row, with the start of the processes, except where a line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.bars import line
from bench.gateway.processes import CORES, TICK, tree
from dragoman.datasets import Translation, translate_files
from dragoman.exchange import Exchange, ExchangePlan

SAMPLE = 50_000  # rows of a file, and of the bare loop
LOCAL, RAY = 0.9, 0.7
ENGINES = {
    "jsonl": ("local engine, JSONL in and out", LOCAL),
    "local": ("local engine, Parquet in and out", LOCAL),
    "ray": ("Ray Data, Parquet in and out, workers up", RAY),
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"What {name} does.",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string", "description": "words"} for key in "abc"},
                "required": ["a"],
            },
        },
    }
    for name in ("read_file", "grep", "edit", "bash")
]


class Spent(NamedTuple):
    rows: int
    cpu: float
    wall: float

    @property
    def microseconds(self) -> float:
        return self.cpu / self.rows * 1e6


def conversation(number: int) -> dict[str, Any]:
    """One to four calls; every tenth row loses a field, some have an orphan, some are wrong."""
    dice = random.Random(number)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are terse."}]
    for turn in range(dice.randint(1, 4)):
        id, path = f"call_{number}_{turn}", f'{{"a": "/f{dice.randint(0, 9999)}"}}'
        function = {"name": dice.choice(("read_file", "grep")), "arguments": path}
        call = {"id": id, "type": "function", "function": function}
        messages += [
            {"role": "user", "content": f"question {dice.random()} " + "lorem ipsum " * dice.randint(1, 15)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": id,
                "content": f"{dice.random()} a line\n" * dice.randint(1, 20),
            },
            {"role": "assistant", "content": "an answer " * dice.randint(1, 20)},
        ]
    body: dict[str, Any] = {"model": "m", "messages": messages, "tools": TOOLS}
    if number % 10 == 0:
        body["logit_bias"] = {"50256": -100}
    if number % 1000 == 7:
        messages.append({"role": "tool", "tool_call_id": "nobody", "content": "orphan"})
    if number % 5000 == 11:
        body["messages"] = 7
    return body


def write_rows(folder: str, first: int, rows: int, group: int) -> None:
    """In a process of its own: a file of Parquet, and the first rows as lines too."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    texts = [json.dumps(conversation(number)).encode() for number in range(first, first + rows)]
    table = pa.table(
        {"id": range(first, first + rows), "body": pa.array(texts, pa.binary()).cast(pa.string())}
    )
    pq.write_table(table, f"{folder}/rows/{first:09}.parquet", compression="zstd", row_group_size=group)
    if not first:
        Path(folder, "sample.jsonl").write_bytes(b"".join(text + b"\n" for text in texts[:SAMPLE]))


def make(folder: Path, rows: int, group: int) -> None:
    (folder / "rows").mkdir()
    step = max(SAMPLE, group)
    todo = [
        python("write_rows", str(folder), first, min(step, rows - first), group)
        for first in range(0, rows, step)
    ]
    running: list[subprocess.Popen[bytes]] = []
    for command in todo:
        if len(running) == len(CORES):
            assert running.pop(0).wait() == 0
        running.append(subprocess.Popen(command))
    assert not any(process.wait() for process in running)


def bare(folder: str, number: int) -> None:
    plan = ExchangePlan("openai-chat", "anthropic", transcript=True)
    with open(f"{folder}/sample.jsonl", "rb") as lines, open(f"{folder}/bare-{number}.jsonl", "wb") as out:
        for text in lines:
            exchange = Exchange.planned(plan)
            try:
                out.write(exchange.request_bytes(text) + b"\n")
            except Exception:
                out.write(b"null\n")


def local(sources: list[str], out: str, options: str) -> None:
    """Prints the largest memory of any process after each tenth of the job."""
    column = "" if sources[0].endswith(".jsonl") else "body"
    peaks: list[int] = []

    def look(progress: Any) -> None:
        if progress.done * 10 // progress.total > len(peaks) - 1:
            peaks.append(max(peak_mb(pid) for pid in tree(os.getpid())))

    translation = Translation("openai-chat", "anthropic", column)
    report = translate_files(sources, out, translation, on_progress=look, **json.loads(options))
    print(json.dumps({"rows": report.rows, "failed": report.failed, "peaks": peaks}))


def peak_mb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(each.split()[1]) // 1024 for each in lines if each.startswith("VmHWM:")), 0)


def on_ray(options: str) -> None:
    """Prints what the start and a first file cost, and then what each job of its standard input costs."""
    ray, data = import_module("ray"), import_module("ray.data")
    maps = import_module("dragoman.datasets.ray")
    data.DataContext.get_current().enable_progress_bars = False
    ray.init(num_cpus=len(CORES), include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             object_store_memory=1 << 30, _node_ip_address="127.0.0.1")  # fmt: skip
    before = 0.0, time.monotonic()
    for job in sys.stdin:
        files, place = json.loads(job)
        made = maps.translate(
            data.read_parquet(files), "openai-chat", "anthropic", "body", **json.loads(options)
        )
        made.write_parquet(place)
        after = all_cpu_seconds(os.getpid()), time.monotonic()
        print(json.dumps([after[0] - before[0], after[1] - before[1]]), flush=True)
        before = after
    ray.shutdown()


def all_cpu_seconds(pid: int) -> float:
    """Of all processes that run, and of those that have ended before them."""
    total = 0
    for member in tree(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / TICK


def python(function: str, *arguments: object) -> list[str]:
    call = f"{function}(*{arguments!r})"
    return [sys.executable, "-c", f"from bench.datasets import {function}; {call}"]


def spend(rows: int, *commands: list[str]) -> tuple[Spent, str]:
    """CPU of the processes and of their children, and what the last one printed."""
    began = time.monotonic()
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    said, cpu = b"", 0.0
    for process in processes:
        assert process.stdout
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            raise SystemExit(f"{process.args} ended with {status}")
        cpu += usage.ru_utime + usage.ru_stime
    return Spent(rows, cpu, time.monotonic() - began), said.decode()


def bare_loops(folder: Path) -> Spent:
    commands = [python("bare", str(folder), number) for number in range(len(CORES))]
    return spend(SAMPLE * len(CORES), *commands)[0]


def show(name: str, spent: Spent) -> None:
    print(f"{name:44}{spent.microseconds:8.1f} µs{spent.rows / spent.wall:10,.0f} rows/s", flush=True)


class Engines:
    """Each maps a part of the files, and says what that took."""

    def __init__(self, folder: Path, options: str) -> None:
        self._folder, self._options, self._number = folder, options, 0
        self._ray: subprocess.Popen[str] | None = None

    def run(self, name: str, part: list[str]) -> Spent:
        self._number += 1
        out = f"{self._folder}/out-{self._number}"
        try:
            return {"jsonl": self._jsonl, "local": self._local, "ray": self._on_ray}[name](part, out)
        finally:
            shutil.rmtree(out)

    def _jsonl(self, _: list[str], out: str) -> Spent:
        command = python("local", [f"{self._folder}/sample.jsonl"], out, '{"shard_rows":5000}')
        return spend(SAMPLE, command)[0]

    def _local(self, part: list[str], out: str) -> Spent:
        spent, said = spend(row_count(part), python("local", part, out, self._options))
        print(f"local engine: {said.strip()}")
        return spent

    def _on_ray(self, part: list[str], out: str) -> Spent:
        if not self._ray:
            self._ray = subprocess.Popen(
                python("on_ray", "{}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            cpu, wall = self._ask(part[:1], f"{self._folder}/out-first")
            print(f"Ray: its start took {cpu:.1f} s of CPU and {wall:.1f} s, with a first file")
        return Spent(row_count(part), *self._ask(part, out))

    def _ask(self, part: list[str], out: str) -> list[float]:
        assert self._ray
        assert self._ray.stdin
        assert self._ray.stdout
        self._ray.stdin.write(json.dumps([part, out]) + "\n")
        self._ray.stdin.flush()
        return json.loads(next(each for each in self._ray.stdout if each.startswith("[")))

    def end(self) -> None:
        if self._ray and self._ray.stdin:
            self._ray.stdin.close()
            self._ray.wait()


def row_count(files: list[str]) -> int:
    return sum(import_module("pyarrow.parquet").read_metadata(file).num_rows for file in files)


def compare(folder: Path, names: list[str], rounds: int, options: str) -> None:
    files = sorted(map(str, (folder / "rows").iterdir()))
    engines, ratios = Engines(folder, options), {name: list[float]() for name in names}
    loop = bare_loops(folder)
    show("bare loop", loop)
    try:
        for number in range(min(rounds, len(files))):
            for name, found in ratios.items():
                spent = engines.run(name, files[number::rounds])
                show(ENGINES[name][0], spent)
                before, loop = loop, bare_loops(folder)
                show("bare loop", loop)
                found.append((before.microseconds + loop.microseconds) / 2 / spent.microseconds)
    finally:
        engines.end()
    for name, found in ratios.items():
        print(f"{ENGINES[name][0]}: {', '.join(f'{each:.2f}' for each in found)} of the bare loop")
        print(line(ENGINES[name][0], median(found), ENGINES[name][1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--group", type=int, default=10_000, help="rows of a row group")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=3, help="parts of the rows; the middle ratio counts")
    parser.add_argument("--options", default="{}", help="of translate_files, as JSON")
    parser.add_argument("--folder", type=Path, help="where the rows are, or shall be made")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="dragoman-bench-"))
    try:
        if not (folder / "rows").exists():
            folder.mkdir(exist_ok=True)
            make(folder, given.rows, given.group)
        for old in folder.glob("out*"):
            shutil.rmtree(old)
        compare(folder, given.engines.split(","), given.rounds, given.options)
    finally:
        if not given.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
