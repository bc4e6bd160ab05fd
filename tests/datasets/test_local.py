"""Files into shards: every row once, whatever is killed; what is there is never done again."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from datasets.conversations import READ, SHAREGPT, body, ids, messages, write_lines, write_parquet
from dragoman import ConfigError, DragomanError
from dragoman.cli import main
from dragoman.cli.dataset import ProgressLine
from dragoman.datasets import Translation, json_files, shards, table_files, translate, translate_files, worker
from dragoman.datasets.local import _Shares, job_report
from dragoman.datasets.pieces import RowFormat
from dragoman.datasets.shards import ShardReader, cut
from waiting import wait_until

CHAT = Translation("openai-chat", "anthropic")
IN_BODY = Translation("openai-chat", "anthropic", "body")
ROWS = [body(number) for number in range(100)]


TEXTS = [json.dumps(row).encode() for row in ROWS]
LINES, ARRAY = b"\n".join(TEXTS) + b"\n", b"[" + b", ".join(TEXTS) + b"]"
FORMS: dict[str, tuple[str, bytes]] = {
    "lines": ("a.jsonl", LINES),
    "lines of Windows": ("a.ndjson", b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n")),
    "no end of the last line": ("a.jsonl", LINES[:-1]),
    "lines in a .json": ("a.json", LINES),
    "an array": ("a.json", ARRAY),
    "an array of many lines": ("a.json", b"\xef\xbb\xbf\n" + json.dumps(ROWS, indent=2).encode() + b"\n"),
    "an array in a .jsonl": ("a.jsonl", json.dumps(ROWS, indent=1).encode()),
    "gzip": ("a.jsonl.gz", gzip.compress(LINES)),
    "gzip in two members": ("a.jsonl.gz", gzip.compress(LINES[:5000]) + gzip.compress(LINES[5000:])),
    "an array in zstd": ("a.json.zst", bytes(pa.compress(ARRAY, "zstd", asbytes=True))),
    "lines in bzip2": ("a.jsonl.bz2", bz2.compress(LINES)),
}


def written(form: str, folder: Path) -> Path:
    match form:
        case "parquet" | "one group":
            return write_parquet(folder / "a.parquet", ROWS, 7 if form == "parquet" else 1000)
        case "arrow stream" | "arrow file":
            table = pa.table({"body": [json.dumps(row) for row in ROWS]})
            new = pa.ipc.new_stream if form == "arrow stream" else pa.ipc.new_file
            with new(folder / "a.arrow", table.schema) as writer:
                writer.write_table(table, max_chunksize=9)
            return folder / "a.arrow"
        case _:
            name, content = FORMS[form]
            (folder / name).write_bytes(content)
            return folder / name


@pytest.mark.parametrize("size", [1, 7, 30, 1000])
@pytest.mark.parametrize("form", [*FORMS, "parquet", "one group", "arrow stream", "arrow file"])
def test_shards_hold_every_row_once(size: int, form: str, tmp_path: Path) -> None:
    file = written(form, tmp_path)
    parts = cut([str(file)], size, "" if file.name in [name for name, _ in FORMS.values()] else "body")
    format = RowFormat(("body",), whole="json" in file.name)
    reader = ShardReader(format)
    batches = [[*reader.read(part)] for part in parts]
    assert [sum(len(batch.rows) for batch in each) for each in batches] == [part.rows for part in parts]
    assert [id for each in batches for batch in each for id in batch.ids] == [
        str(i) if file.suffix == ".parquet" else f"{file.name}:{i + 1}" for i in range(100)
    ]
    bodies = [json.loads(row["body"]) for each in batches for batch in each for row in batch.rows]
    assert bodies == ROWS
    alone = {part: [*ShardReader(format).read(part)] for part in reversed(parts)}
    assert [alone[part] for part in parts] == batches
    if size == 1 and form not in ("one group", "arrow stream", "arrow file"):
        assert len(parts) == 100


def test_large_rows_are_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (json_files, table_files):
        monkeypatch.setattr(module, "BATCH_BYTES", 5000)
    for module in (json_files, shards):
        monkeypatch.setattr(module, "PIECE_BYTES", 20_000)
    monkeypatch.setattr(json_files, "_BLOCK", 1000)
    for form in ("lines", "an array", "one group", "arrow stream"):
        file = written(form, tmp_path)
        format = RowFormat(("body",), whole="json" in file.name)
        parts = cut([str(file)], 1000)
        batches = [batch for part in parts for batch in ShardReader(format).read(part)]
        rows = [row for batch in batches for row in batch.rows]
        assert [json.loads(row["body"]) for row in rows] == ROWS
        assert max(sum(len(row["body"]) for row in batch.rows) for batch in batches) < 20_000
        assert len(parts) > 1 or file.suffix in (".parquet", ".arrow")


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join([TEXTS[0], b"", TEXTS[1], b"  \r", b"{", b"", b""]))
    seen: list[tuple[int, int]] = []
    found = translate_files(
        [file], tmp_path / "out", CHAT, on_progress=lambda it: seen.append((it.done, it.total))
    )
    assert (found.rows, [*found.errors], seen) == (3, ["a.jsonl:5"], [(3, 3)])
    assert ids(tmp_path / "out") == ["a.jsonl:1", "a.jsonl:3", "a.jsonl:5"]


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_shard_of_empty_lines_has_no_rows(format: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(TEXTS[0] + b"\n\n\n\n" + TEXTS[1])
    found = translate_files([tmp_path / "a.jsonl"], tmp_path / "out", CHAT, format=format, shard_rows=2)
    assert (found.rows, ids(tmp_path / "out")) == (2, ["a.jsonl:1", "a.jsonl:5"])
    assert len([*(tmp_path / "out").glob("part-*")]) == 3


def test_a_folder_of_small_files(tmp_path: Path) -> None:
    """Each is a conversation. They make one shard, and what is no data is left out."""
    folder = tmp_path / "in"
    for name in ("a/1.json", "a/2.json", "b/1.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"conversation": messages(1)}, indent=2))
    for name in ("README.md", "dataset_info.json", ".cache/x.json", "_old/x.json", "a/empty.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("" if "empty" in name else '{"x": 1}')
    translation = Translation("openai-chat", "gemini", "conversation")
    found = translate_files([folder], tmp_path / "out", translation)
    assert (found.rows, found.failed) == (3, 0)
    assert ids(tmp_path / "out") == ["a/1.json:1", "a/2.json:1", "b/1.json:1"]
    assert len([*(tmp_path / "out").glob("part-*")]) == 1


def test_shards_of_a_row_group_read_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(write_parquet(tmp_path / "a.parquet", ROWS, 100))
    [*parts], opened = cut([file], 10), []
    whole = table_files._open_parquet
    monkeypatch.setattr(table_files, "_open_parquet", lambda file: opened.append(file) or whole(file))
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


def test_a_table_of_conversations_alone_becomes_lines(tmp_path: Path) -> None:
    pq.write_table(pa.table({"messages": [messages(1)], "error": ["old"]}), tmp_path / "a.parquet")
    translate_files([tmp_path / "a.parquet"], tmp_path / "out", CHAT, format="jsonl")
    line = json.loads((tmp_path / "out" / "part-000000.jsonl").read_text())
    assert (line["id"], line["error"], [*line]) == ("a.parquet:1", None, ["id", "body", "losses", "error"])


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


def test_a_row_of_many_lines_is_one_line(tmp_path: Path) -> None:
    """Whatever the source looked like: in what stays as it is, and in a body of the same protocol."""
    rows = [{"id": i, "note": {"a": ["two\nlines", 1.5]}, "c": {"messages": messages(i)}} for i in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=2).replace("\n", "\r\n").replace("1.5", "1.50"))
    translate_files([tmp_path / "a.json"], tmp_path / "out", Translation("openai-chat", "openai-chat", "c"))
    lines = (tmp_path / "out" / "part-000000.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["note"] for line in lines] == [row["note"] for row in rows]
    assert [json.loads(line)["body"] for line in lines] == [row["c"] for row in rows]
    assert b"1.50" in lines[0]


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
    with pytest.raises(ConfigError, match="is in a folder that is read"):
        translate_files([tmp_path], tmp_path / "out2", IN_BODY)
    with pytest.raises(ConfigError, match="holds another job"):
        job(tmp_path, resume=True, format="jsonl")
    (tmp_path / "out" / "_job.json").unlink()
    with pytest.raises(ConfigError, match="choose an empty folder"):
        job(tmp_path)


def test_without_ray_no_job_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dragoman.datasets.ray", raising=False)
    for module in ("ray", "ray.data"):  # another test may have loaded the second one
        monkeypatch.setitem(sys.modules, module, None)
    file = write_lines(tmp_path / "in.jsonl", ROWS[:1])
    with pytest.raises(DragomanError, match=r"is not installed: .*\[ray\]"):
        translate_files(file, tmp_path / "out", CHAT, engine="ray")
    assert [*tmp_path.iterdir()] == [file]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.parquet").write_text("no")
    (tmp_path / "c.json").write_text("{]")
    (tmp_path / "e.jsonl.gz").write_text("{}")
    (tmp_path / "f.jsonl").write_text('{"conversation": [], "x": 1}\n' * 3)
    for name, problem in {
        "a.csv": "ends in",
        "b.parquet": "b.parquet",
        "c.json": "c.json: expected an array of rows, one row, or a row on each line",
        "e.jsonl.gz": "e.jsonl.gz: zlib",
        "f.jsonl": "f.jsonl: no column 'messages': its first rows have conversation, x.*--column",
        "d.jsonl": "no such",
    }.items():
        with pytest.raises(ConfigError, match=problem):
            translate_files([tmp_path / name], None, CHAT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no file"):
        translate_files([tmp_path / "empty"], None, CHAT)
    for name, value in {"engine": "spark", "format": "csv"}.items():
        options: Any = {name: value}
        with pytest.raises(ConfigError, match=f"{name} is '.*' or '.*', not '{value}'"):
            translate_files(tmp_path / "f.jsonl", None, CHAT, **options)
    with pytest.raises(ConfigError, match="no file is given"):
        translate_files([], None, CHAT)
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
        wait_until(lambda: not any(map(is_running, workers)))  # they end with the driver
        subprocess.run([sys.executable, "-c", DRIVER, file, out], check=True)
    else:
        os.kill(workers[0], signal.SIGKILL)
        assert driver.wait() == 0
    assert ids(out) == [str(i) for i in range(3000)]
    assert (job_report(out).rows, job_report(out).failed) == (3000, 1)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the processes in /proc")
def test_who_interrupts_in_a_terminal_sees_one_sentence(tmp_path: Path) -> None:
    """Ctrl-C goes to a group of processes. A worker that is in it shows where it was."""
    file, out = write_parquet(tmp_path / "in.parquet", ROWS * 30, 100), tmp_path / "out"
    words = ["dataset", "translate", file, out, "--from", "openai-chat", "--to", "anthropic"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "dragoman", *words, "--column", "body", "--shard-rows", "1", "--workers", "2"],
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    wait_until(lambda: any(out.glob("part-*")))
    assert driver.pid not in map(os.getpgid, children(driver.pid))
    os.killpg(driver.pid, signal.SIGINT)
    _, said = driver.communicate()
    assert driver.returncode == 130
    assert [line for line in said.splitlines() if line and " rows " not in line] == [
        "Interrupted. --resume goes on with what is not done."
    ]


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


DEATHS = {
    "at a row": "from dragoman.datasets.rows import RowTranslator as T\n"
    "T.__call__ = lambda *_: os._exit(9)\n",
    "in an answer": "os.write(1, b'{\"report\":{')\nos._exit(9)\n",
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_a_shard_that_kills_its_workers_is_named(
    death: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os\n{death}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DragomanError, match=r"ended 3 times \(exit code 9\) at .*in.parquet, rows 1 to 7"):
        job(tmp_path, workers=1)


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_full_disk_is_said_and_leaves_nothing(
    format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(tmp_path, format=format)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*part-*")}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worker._ParquetFile if format == "parquet" else worker._LinesFile, "write", full)
    done = msgspec.json.decode((tmp_path / "out" / "_job.json").read_bytes(), type=worker.DatasetJob)
    said = worker.ShardTranslator(done).answer(3)
    assert (said.report, "part-000003" in said.error) == (None, True)
    assert "No space left on device. --resume goes on" in said.error
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*part-*")} == before


WRONG_USE = {
    "no folder of the output": (
        ["in.jsonl"],
        "Only in.jsonl is given. Name the FILE… to read and the folder OUT/",
    ),
    "a file for it": (["in.jsonl", "in.jsonl"], "OUT/ is the folder to write, and in.jsonl is a file"),
}


@pytest.mark.parametrize(("words", "problem"), WRONG_USE.values(), ids=WRONG_USE)
def test_the_command_says_what_is_missing(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "in.jsonl", ROWS[:1])
    ran = CliRunner().invoke(
        main, ["dataset", "translate", *words, "--from", "openai-chat", "--to", "anthropic"]
    )
    assert (ran.exit_code, problem in ran.stderr) == (2, True)


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_lines(tmp_path / "in.jsonl", ROWS)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressLine, "__call__", interrupt)
    words = ["translate", str(file), str(tmp_path / "out"), "--from", "openai-chat", "--to", "anthropic"]
    ran = CliRunner().invoke(main, ["dataset", *words, "--shard-rows", "40"])
    assert (ran.exit_code, "Interrupted. --resume goes on" in ran.stderr) == (130, True)
    monkeypatch.undo()
    resumed = CliRunner().invoke(main, ["dataset", *words, "--shard-rows", "40", "--resume"])
    assert resumed.stdout.startswith("100 rows, 1 with an error")


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
