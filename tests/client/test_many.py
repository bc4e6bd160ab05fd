"""`generate_many` and `generate_file`: limits, errors, bounded memory, and resuming after a kill."""

import asyncio
import gc
import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pytest

from client.upstreams import KEY, provider
from dragoman import (
    ConfigError,
    LossError,
    Provider,
    UpstreamError,
    agenerate_many,
    generate_file,
    generate_many,
)
from dragoman.client import many
from dragoman.client.many import Progress, ProgressBar, PromptReply, RateLimiter, describe_progress
from waiting import StillClock, wait_until

FAILING = "Hello [[fault: 400]]"


def test_every_prompt_gets_its_reply():
    prompts = [f"number {index}" for index in range(50)]
    replies = list(generate_many(prompts, "demo:any", concurrency=7))
    assert sorted(reply.index for reply in replies) == list(range(50))
    assert all(reply.prompt == prompts[reply.index] for reply in replies)
    assert all(str(reply.prompt) in reply.content for reply in replies)


def test_a_failure_is_a_reply_and_the_others_go_on():
    replies = {reply.index: reply for reply in generate_many(["Hello", FAILING, "Hello"], "demo:any")}
    assert replies[1].result is None
    assert isinstance(replies[1].error, UpstreamError)
    with pytest.raises(UpstreamError):
        assert replies[1].content
    assert replies[0].content
    assert replies[2].content


def test_typed_output(tmp_path: Path):
    class City(TypedDict):
        name: str

    reply = next(iter(generate_many(["Rome"], "demo:any", output=City)))
    assert reply.result
    assert isinstance(reply.result.output["name"], str)
    source, target = written(tmp_path / "in.jsonl", "Rome"), tmp_path / "out.jsonl"
    generate_file(source, target, "demo:any", output=City)
    assert read(target)[0]["output"] == reply.result.output


def test_what_would_be_lost_is_a_failure_in_strict_mode():
    reply = next(iter(generate_many(["Hello"], "demo:any", seed=1, strict=True)))
    assert isinstance(reply.error, LossError)


FATAL: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "a setting": ({"temprature": 1}, ConfigError),
    "a limit": ({"concurrency": 0}, ConfigError),
}


@pytest.mark.parametrize("options, error", FATAL.values(), ids=FATAL)
def test_a_mistake_ends_everything(options: dict[str, Any], error: type[Exception]):
    with pytest.raises(error):
        list(generate_many(["Hello"] * 100, "demo:any", **options))


def test_a_wrong_key_ends_everything(address: str):
    wrong = provider(address, "openai-chat", api_key=f"not {KEY}").model("x")
    with pytest.raises(UpstreamError):
        list(generate_many(["Hello"] * 100, wrong))


def test_prompts_are_read_only_as_far_as_needed():
    read: list[int] = []

    def prompts():
        for index in range(10_000):
            read.append(index)
            yield "Hello"

    async def first() -> None:
        replies = agenerate_many(prompts(), "demo:any", concurrency=4)
        async for _ in replies:
            break
        await replies.aclose()

    asyncio.run(first())
    assert len(read) <= 3 * 4 + 1


def test_an_iterator_that_fails_raises():
    def prompts():
        yield "Hello"
        raise KeyError("mine")

    with pytest.raises(KeyError):
        list(generate_many(prompts(), "demo:any"))


def test_a_rate_limit_spaces_requests(monkeypatch: pytest.MonkeyPatch):
    clock = StillClock()
    monkeypatch.setattr(many, "RateLimiter", partial(RateLimiter, now=clock, sleep=clock.sleep))
    replies = generate_many(["Hello"] * 5, "demo:any", requests_per_minute=30, concurrency=1)
    assert len(list(replies)) == 5
    assert clock.slept == [2, 2, 2, 2]


def test_a_retry_is_a_request_too(monkeypatch: pytest.MonkeyPatch):
    clock = StillClock()
    monkeypatch.setattr(many, "RateLimiter", partial(RateLimiter, now=clock, sleep=clock.sleep))
    prompts = ["Hello", "Hello [[fault: 429 x2 counted]]", "Hello", "Hello"]
    replies = list(generate_many(prompts, "demo:any", requests_per_minute=30, concurrency=1))
    assert [reply.error for reply in replies] == [None] * 4
    assert clock.slept == [2, 6, 2]


def test_tokens_are_charged_afterwards():
    clock = StillClock()

    async def work() -> None:
        limiter = RateLimiter(60, clock, clock.sleep)
        await limiter.wait()
        limiter.charge(100)
        await limiter.wait()

    asyncio.run(work())
    assert clock.slept == [100]


def test_progress_is_reported():
    seen: list[tuple[int, int]] = []
    model = Provider("demo", profiles={"*": {"price": {"input": 1_000_000, "output": 0}}}).model("any")
    states: list[Progress] = []

    def report(progress: Progress) -> None:
        seen.append((progress.done, progress.failed))
        states.append(progress)

    list(generate_many(["Hello", FAILING], model, concurrency=1, progress=report))
    assert seen == [(1, 0), (2, 1)]
    assert (states[-1].total, states[-1].cost) == (2, states[-1].usage.input)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar():
    state = Progress(4)
    for index in range(3):
        state.add(PromptReply(index, "Hello"))
    text = describe_progress(state)
    assert text.startswith("━━━━━━━━━━━━━━━━━━──────  3/4  75 %  ")
    assert "3 failed" in text
    for stream, start in ((Terminal(), "\r━"), (io.StringIO(), "━")):
        bar = ProgressBar(stream)
        bar(state)
        bar.close()
        assert stream.getvalue().startswith(start)
        assert stream.getvalue().endswith("\n")


# --- files ---


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_of_prompts(tmp_path: Path):
    rows = (
        "Good morning",
        {"id": "b", "prompt": "Good evening", "temperature": 0.5},
        {"messages": [{"role": "user", "content": "Good night"}], "seed": 1},
        {"id": 7, "prompt": FAILING},
    )
    source, target = written(tmp_path / "in.jsonl", *rows), tmp_path / "out.jsonl"
    state = generate_file(source, target, "demo:any")
    assert (state.done, state.failed, state.skipped) == (4, 1, 0)
    replies = {row["id"]: row for row in read(target)}
    assert replies.keys() == {1, "b", 3, 7}
    assert "Good morning" in replies[1]["content"]
    assert replies[1]["usage"]["input"]
    assert "setting.seed.dropped" in [loss["code"] for loss in replies[3]["losses"]]
    assert replies[7]["error"]["kind"] == "bad_request"


def test_what_is_done_is_skipped_and_a_torn_line_is_done_again(tmp_path: Path):
    source, target = written(tmp_path / "in.jsonl", "a", "b", "c"), tmp_path / "out.jsonl"
    target.write_text('{"id":2,"content":"kept"}\n{"id":3,"cont')
    state = generate_file(source, target, "demo:any")
    assert (state.done, state.skipped) == (2, 1)
    replies = read(target)
    assert replies[0] == {"id": 2, "content": "kept"}
    assert sorted(row["id"] for row in replies) == [1, 2, 3]


def test_failures_are_sent_again_on_request(tmp_path: Path):
    source, target = written(tmp_path / "in.jsonl", "a", "b", "c"), tmp_path / "out.jsonl"
    written(target, {"id": 2, "error": {}}, {"id": 3, "content": "kept"})
    assert generate_file(source, target, "demo:any").done == 1
    assert generate_file(source, target, "demo:any", retry_failed=True).done == 1
    assert sorted(row["id"] for row in read(target)) == [1, 2, 3]
    assert not any("error" in row for row in read(target))
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "out.jsonl"}


WRONG = {
    "no JSON": ("{", "in.jsonl:1: not JSON"),
    "no prompt": ('{"id": 1}', "either prompt or messages"),
    "both": ('{"prompt": "a", "messages": []}', "either prompt or messages"),
    "an odd prompt": ('{"prompt": 1}', "prompt is a string"),
    "an odd id": ('{"prompt": "a", "id": []}', "an id is a string or an integer"),
    "an id twice": ('{"prompt": "a", "id": "x"}\n{"prompt": "b", "id": "x"}', "the id 'x' is used twice"),
    "an unknown setting": ('{"prompt": "a", "temprature": 1}', "temprature"),
}


@pytest.mark.parametrize("text, problem", WRONG.values(), ids=WRONG)
def test_mistakes_in_the_input_are_named(text: str, problem: str, tmp_path: Path):
    (tmp_path / "in.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        generate_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", "demo:any")


def test_another_file_is_not_overwritten(tmp_path: Path):
    source = written(tmp_path / "in.jsonl", "a")
    target = written(tmp_path / "out.jsonl", {"important": True})
    with pytest.raises(ConfigError, match="it has no id"):
        generate_file(source, target, "demo:any")
    assert read(target) == [{"important": True}]


def test_two_processes_do_not_write_one_file(tmp_path: Path):
    fcntl = pytest.importorskip("fcntl")
    source = written(tmp_path / "in.jsonl", "a")
    with (tmp_path / "out.jsonl").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process writes it"):
            generate_file(source, tmp_path / "out.jsonl", "demo:any")


def test_it_resumes_after_a_kill(tmp_path: Path):
    count = 400
    source = written(tmp_path / "in.jsonl", *({"id": f"p{index}", "prompt": "Hi"} for index in range(count)))
    target = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "dragoman", "many", str(source), str(target), "--model", "demo:any"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "HOME": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--requests-per-minute", "6000"], env=environ, stderr=subprocess.PIPE
    )
    wait_until(lambda: target.exists() and target.read_bytes().count(b"\n") >= 20)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first = target.read_bytes()
    assert first.count(b"\n") < count
    done = subprocess.run(command, env=environ, capture_output=True, check=True)
    assert target.read_bytes().startswith(first[: first.rindex(b"\n") + 1])
    assert sorted(row["id"] for row in read(target)) == sorted(f"p{index}" for index in range(count))
    assert f"{count}/{count}" in done.stderr.decode()


def test_an_upstream_that_is_away_ends_the_batch(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    source = written(tmp_path / "in.jsonl", *({"id": f"p{index}", "prompt": "Hi"} for index in range(300)))
    away = Provider("away", protocol="gemini", base_url="http://127.0.0.1:9", tries=1).model("m")
    with pytest.raises(UpstreamError, match="'away' is not reachable"):
        generate_file(source, tmp_path / "out.jsonl", away)
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") < 64
    gc.collect()
    assert "never retrieved" not in capfd.readouterr().err
    busy = generate_many(["Hello [[fault: 529]]", "Hello"] * 40, Provider("demo", tries=1).model("any"))
    assert len(list(busy)) == 80
