"""Files into shards: every row once, whatever is killed; what is there is never done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from datasets.conversations import READ, SHAREGPT, body, ids, messages, write_lines, write_parquet
from dragoman import ConfigError, DragomanError
from dragoman.cli import main
from dragoman.datasets import Translation, shards, translate, translate_files
from dragoman.datasets.local import _Shares, job_report
from dragoman.datasets.shards import RowFormat, ShardReader, cut
from waiting import wait_until

CHAT = Translation("openai-chat", "anthropic")
IN_BODY = Translation("openai-chat", "anthropic", "body")
ROWS = [body(number) for number in range(100)]


@pytest.mark.parametrize("size", [1, 3, 7, 10, 20, 100, 1000])
@pytest.mark.parametrize("kind", ["jsonl", "torn", "parquet", "one group", "json"])
def test_shards_hold_every_row_once(size: int, kind: str, tmp_path: Path) -> None:
    match kind:
        case "jsonl" | "torn":
            file = write_lines(tmp_path / "a.jsonl", ROWS)
            if kind == "torn":  # no end of line at the end
                file.write_bytes(file.read_bytes()[:-1])
        case "json":
            file = tmp_path / "a.json"
            file.write_text(json.dumps(ROWS))
        case _:
            file = write_parquet(tmp_path / "a.parquet", ROWS, 7 if kind == "parquet" else 1000)
    parts = cut([str(file)], size)
    format = RowFormat(("body",), whole=file.suffix != ".parquet")
    reader = ShardReader(format)
    batches = [[*reader.read(part)] for part in parts]
    assert [sum(len(batch.rows) for batch in each) for each in batches] == [part.rows for part in parts]
    bodies = [json.loads(row["body"]) for each in batches for batch in each for row in batch.rows]
    assert bodies == ROWS
    alone = {part: [*ShardReader(format).read(part)] for part in reversed(parts)}
    assert [alone[part] for part in parts] == batches
    if size == 1 and kind not in ("json", "one group"):
        assert len(parts) == 100


def test_shards_of_a_row_group_read_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(write_parquet(tmp_path / "a.parquet", ROWS, 100))
    [*parts], opened = cut([file], 10), []
    whole = shards._opened
    monkeypatch.setattr(shards, "_opened", lambda file: opened.append(file) or whole(file))
    reader = ShardReader(RowFormat(("body",)))
    for part in [*parts[4:], *parts[:3], *parts[2:4]]:
        [*_] = reader.read(part)
    assert len(opened) == 3


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    for name, write in {"a.parquet": write_parquet, "a.jsonl": write_lines}.items():
        [part] = cut([str(write(tmp_path / name, ROWS))], 100)
        write(tmp_path / name, ROWS[:50])
        with pytest.raises(ConfigError, match="shorter than when the job began"):
            [*_] = ShardReader(RowFormat(("body",))).read(part)


def test_each_worker_reads_in_order() -> None:
    shares = _Shares(range(8), 3)
    places = (0, 1, 0, 1, 0, 1, 2, 0, 1, 2, 0)
    assert [shares.take(place) for place in places] == [0, 4, 1, 5, 2, 6, 3, 7, None, None, None]


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize("source", ["parquet", "jsonl"])
def test_files_become_shards(source: Any, format: Any, tmp_path: Path) -> None:
    file = (write_parquet if source == "parquet" else write_lines)(tmp_path / f"in.{source}", ROWS)
    translation = IN_BODY if source == "parquet" else CHAT
    seen: list[int] = []
    report = translate_files(
        [file],
        tmp_path / "out",
        translation,
        format=format,
        shard_rows=30,
        on_progress=lambda progress: seen.append(progress.done),
    )
    assert (report.rows, report.failed, seen[-1]) == (100, 1, 100)
    assert report == job_report(tmp_path / "out")
    names = [str(i) for i in range(100)] if source == "parquet" else [f"in.jsonl:{i + 1}" for i in range(100)]
    assert ids(tmp_path / "out") == names
    want = translate({"body": [json.dumps(ROWS[42])]}, "openai-chat", "anthropic", "body")
    if format == "parquet":
        rows = [
            row
            for part in sorted((tmp_path / "out").glob("part-*"))
            for row in pq.read_table(part).to_pylist()
        ]
        assert (rows[42]["body"], rows[42]["losses"]) == (want["body"][0], want["losses"][0])
    else:
        lines = "".join(part.read_text() for part in sorted((tmp_path / "out").glob("part-*"))).splitlines()
        assert f'"body":{want["body"][0]},' in lines[42]
        assert json.loads(lines[5])["error"] == "openai-chat: messages: expected an array, got the number 7"


def test_rows_of_json_keep_their_other_fields(tmp_path: Path) -> None:
    results = [{"task_id": i, "reward": 1.10, "traj": messages(i)} for i in range(3)]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results).replace("1.1", "1.10"))
    translate_files(
        [file], tmp_path / "out", Translation("tau-bench", "anthropic"), id="task_id", format="jsonl"
    )
    first = (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()[0]
    assert '"task_id":0,"reward":1.10,"body":{' in first
    sharegpt = write_lines(tmp_path / "s.jsonl", [SHAREGPT | {"source": "x"}])
    translate_files([sharegpt], tmp_path / "out2", Translation("sharegpt", "openai-chat"), format="parquet")
    [row] = pq.read_table(tmp_path / "out2" / "part-000000.parquet").to_pylist()
    assert (row["id"], row["rest"]) == ("s.jsonl:1", '{"source":"x"}')
    assert json.loads(row["body"])["messages"][0]["role"] == "system"


def test_the_layout_of_fine_tuning(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "train.jsonl", [{"messages": messages(1), "tools": [READ], "id": "a"}])
    translate_files([file], tmp_path / "out", Translation("openai-fine-tuning", "anthropic"))
    [line] = (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()
    assert (json.loads(line)["id"], json.loads(line)["body"]["tools"][0]["name"]) == ("a", "read_file")


def job(tmp_path: Path, **options: Any) -> Any:
    file = write_parquet(tmp_path / "in.parquet", ROWS)
    return translate_files([file], tmp_path / "out", IN_BODY, shard_rows=7, **options)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    whole = job(tmp_path)
    parts = sorted((tmp_path / "out").glob("part-*"))
    before = [part.stat().st_mtime_ns for part in parts[1:]]
    (tmp_path / "out" / ".part-000000.parquet.1.tmp").write_text("of a process that was killed")
    parts[0].unlink()
    assert job(tmp_path, resume=True) == whole
    assert [part.stat().st_mtime_ns for part in parts[1:]] == before
    assert ids(tmp_path / "out") == [str(i) for i in range(100)]
    assert not [*(tmp_path / "out").glob(".part*")]


def test_another_job_in_the_folder_is_refused(tmp_path: Path) -> None:
    job(tmp_path)
    with pytest.raises(ConfigError, match="holds a job already"):
        job(tmp_path)
    with pytest.raises(ConfigError, match="holds another job"):
        job(tmp_path, resume=True, format="jsonl")
    (tmp_path / "out" / "_job.json").unlink()
    with pytest.raises(ConfigError, match="choose an empty folder"):
        job(tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.parquet").write_text("no")
    (tmp_path / "c.json").write_text("{}")
    for name, problem in {
        "a.csv": "ends in",
        "b.parquet": "b.parquet",
        "c.json": "array",
        "d.jsonl": "no such",
    }.items():
        with pytest.raises(ConfigError, match=problem):
            translate_files([tmp_path / name], None, CHAT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no file"):
        translate_files([tmp_path / "empty"], None, CHAT)
    write_parquet(tmp_path / "e.parquet", ROWS)
    with pytest.raises(ConfigError, match="no column 'conversation'"):
        translate_files([tmp_path / "e.parquet"], None, Translation("openai-chat", "gemini", "conversation"))


DRIVER = """
import sys
from dragoman.datasets import Translation, translate_files
translate_files([sys.argv[1]], sys.argv[2], Translation("openai-chat", "anthropic", "body"),
                shard_rows=50, workers=2, resume=True)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the processes in /proc")
@pytest.mark.parametrize("victim", ["driver", "worker"])
def test_every_row_once_whoever_is_killed(victim: str, tmp_path: Path) -> None:
    rows = [body(number) for number in range(3000)]
    file, out = write_parquet(tmp_path / "in.parquet", rows, 50), tmp_path / "out"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, file, out])
    wait_until(lambda: len([*out.glob("part-*")]) >= 2)
    workers = children(driver.pid)
    if victim == "driver":
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        assert len([*out.glob("part-*")]) < 60
        wait_until(lambda: not any(map(is_running, workers)))  # they end with the driver
        subprocess.run([sys.executable, "-c", DRIVER, file, out], check=True)
    else:
        os.kill(workers[0], signal.SIGKILL)
        assert driver.wait() == 0
    assert ids(out) == [str(i) for i in range(3000)]
    assert (job_report(out).rows, job_report(out).failed) == (3000, 1)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_shard_that_kills_its_workers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, dragoman.datasets.rows as rows\nrows.RowTranslator.__call__ = lambda *_: os._exit(9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DragomanError, match=r"ended 3 times \(exit code 9\) at .*in.parquet, rows 1 to 7"):
        job(tmp_path, workers=1)


def test_the_command(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "in.jsonl", ROWS)
    words = [str(file), "--from", "openai-chat", "--to", "anthropic"]
    shown = CliRunner().invoke(main, ["dataset", "report", *words])
    assert (shown.exit_code, shown.stdout.splitlines()[0]) == (0, "100 rows, 1 with an error")
    assert "minor     field.unknown.dropped" in shown.stdout
    assert "error in.jsonl:6: openai-chat: messages: expected an array" in shown.stdout
    assert "100/100 rows  100 %" in shown.stderr
    assert [*tmp_path.iterdir()] == [file]
    words.insert(1, str(tmp_path / "out"))
    made = CliRunner().invoke(main, ["dataset", "translate", *words])
    assert (made.exit_code, made.stdout) == (1, shown.stdout)
    again = CliRunner().invoke(main, ["dataset", "translate", *words])
    assert again.exit_code == 1
    assert "--resume" in again.stderr
    resumed = CliRunner().invoke(main, ["dataset", "translate", *words, "--resume", "--json", "--quiet"])
    assert json.loads(resumed.stdout)["rows"] == 100
    assert CliRunner().invoke(main, ["dataset", "report", str(tmp_path / "out")]).stdout == shown.stdout
    assert "--from and --to" in CliRunner().invoke(main, ["dataset", "report", str(file)]).stderr
