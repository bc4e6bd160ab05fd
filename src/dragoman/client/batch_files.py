"""`generate_file` and `agenerate_file`: prompts from a JSONL file, replies into another, resumable.

The output is the only record of what is done: each reply is one line, appended by one write, so a process
that is killed leaves whole lines and at most a torn last one, which the next run removes. Prompts without a
line are sent again; those with a line are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Unpack, cast

import msgspec
from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.generating import agenerate
from dragoman.client.many import (
    AskedOutput,
    BatchLimits,
    OnProgress,
    Progress,
    PromptReply,
    ask_many,
    reporter,
)
from dragoman.client.messages import Prompt
from dragoman.client.progress import ProgressBar
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.tools import AnyTool
from dragoman.client.values import plain
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError, UpstreamError
from dragoman.core.jsontext import is_object

_OWN = ("id", "prompt", "messages")


class PromptLine(Struct, frozen=True):
    """A prompt of the input; `id` is its own, or the number of its line, counted from 1."""

    id: str | int
    prompt: Prompt
    settings: dict[str, Any]


async def agenerate_file(
    source: str | Path,
    target: str | Path,
    model: str | Model,
    *,
    output: AskedOutput[Any] = None,
    tools: Iterable[AnyTool] = (),
    concurrency: int = 16,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    retry_failed: bool = False,
    progress: bool | OnProgress = False,
    **settings: Unpack[RequestSettings],
) -> Progress:
    """Send each line of `source` to `model`, append its reply to `target`; what is there already is skipped.

    A line of `source` is a JSON string, or an object with `prompt` or `messages`, and optionally an `id` and
    settings of its own (`system`, `temperature`, …). A line of `target` has the `id` and `content`, `output`,
    `tool_calls`, `finish_reason`, `model`, `usage`, `cost`, `losses`, or an `error`. `retry_failed` sends
    again what ended in an error before.
    """
    target_model, listed = model_of(model), list(tools)
    limits = BatchLimits(concurrency, requests_per_minute, tokens_per_minute)
    report = reporter(progress)

    async def ask(line: PromptLine) -> Result[Any]:
        return await agenerate(
            line.prompt, target_model, output=output, tools=listed, **_merged(settings, line.settings)
        )

    state = Progress(_count(Path(source)))
    with ReplyFile(Path(target), retry_failed) as replies_file, Path(source).open("rb") as file:
        replies = ask_many(_open_lines(file, str(source), replies_file, state), ask, limits)
        try:
            async for batch in replies:
                for reply in batch:
                    replies_file.append(reply)
                    state.add(reply)
                    report(state)
        finally:
            await replies.aclose()
            if isinstance(report, ProgressBar):
                report.close()
    return state


def generate_file(
    source: str | Path,
    target: str | Path,
    model: str | Model,
    *,
    output: AskedOutput[Any] = None,
    tools: Iterable[AnyTool] = (),
    concurrency: int = 16,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    retry_failed: bool = False,
    progress: bool | OnProgress = False,
    **settings: Unpack[RequestSettings],
) -> Progress:
    """Like `agenerate_file`, for code that is not async."""
    return wait_for(
        agenerate_file(
            source,
            target,
            model,
            output=output,
            tools=tools,
            concurrency=concurrency,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            retry_failed=retry_failed,
            progress=progress,
            **settings,
        )
    )


class ReplyFile:
    """The output: which ids it holds, and a way to append one. Only one process may write it at a time."""

    def __init__(self, path: Path, retry_failed: bool) -> None:
        self._path, self._retry_failed = path, retry_failed
        self.done: set[str | int] = set()

    def __enter__(self) -> ReplyFile:
        self._file = self._open()
        try:
            if kept := self._read():
                self._replace(kept)
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def append(self, reply: PromptReply[PromptLine, Any]) -> None:
        """One write with O_APPEND: the line is there as a whole, or cut only by a full disk."""
        line = jsontext.encode(_row(reply)) + b"\n"
        if os.write(self._file, line) < len(line):
            raise OSError(f"{self._path}: the disk is full; the next run goes on from here")

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        if not _locked(file) or os.fstat(file).st_ino != os.stat(self._path).st_ino:
            os.close(file)
            raise ConfigError(f"{self._path}: another process writes it")
        return file

    def _read(self) -> Path | None:
        """Take the ids of all whole lines and cut off a torn last one.

        With `retry_failed`: a file beside it without the failed lines, which is to take its place.
        """
        end, kept = 0, self._path.with_name(f".{self._path.name}.tmp") if self._retry_failed else None
        with ExitStack() as stack:
            lines = stack.enter_context(os.fdopen(os.dup(self._file), "rb"))
            copy = stack.enter_context(kept.open("wb")) if kept else None
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                row = _object(line, f"{self._path}:{number}")
                if "id" not in row:
                    raise ConfigError(f"{self._path}:{number}: not a line of replies: it has no id")
                if not copy or "error" not in row:
                    self.done.add(row["id"])
                    if copy:
                        copy.write(line)
                end += len(line)
        os.ftruncate(self._file, end)
        return kept

    def _replace(self, kept: Path) -> None:
        os.replace(kept, self._path)
        os.close(self._file)
        self._file = self._open()


def _open_lines(
    file: BinaryIO, name: str, output: ReplyFile, state: Progress
) -> Iterator[tuple[int, PromptLine]]:
    """The lines that have no reply yet."""
    seen: set[str | int] = set()
    for index, raw in enumerate(file):
        if not raw.strip():
            continue
        line = _line(raw, index + 1, name)
        if line.id in seen:
            raise ConfigError(f"{name}:{index + 1}: the id {line.id!r} is used twice")
        seen.add(line.id)
        if line.id in output.done:
            state.skipped += 1
        else:
            yield index, line


def _line(raw: bytes, number: int, name: str) -> PromptLine:
    where = f"{name}:{number}"
    try:
        value = jsontext.decode(raw)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None
    if isinstance(value, str):
        return PromptLine(number, value, {})
    if not is_object(value) or ("prompt" in value) == ("messages" in value):
        raise ConfigError(f"{where}: expected a string, or an object with either prompt or messages")
    id = value.get("id", number)
    if not isinstance(id, str | int):
        raise ConfigError(f"{where}: an id is a string or an integer")
    prompt: Any = value.get("prompt", value.get("messages"))
    if not isinstance(prompt, str | list):
        raise ConfigError(f"{where}: prompt is a string, messages is an array")
    return PromptLine(
        id, cast(Prompt, prompt), {key: given for key, given in value.items() if key not in _OWN}
    )


def _row(reply: PromptReply[PromptLine, Any]) -> Mapping[str, Any]:
    result, error = reply.result, reply.error
    if result is None:
        said: dict[str, Any] = {"message": str(error)}
        if isinstance(error, UpstreamError):
            said |= {"kind": error.failure.kind, "status": error.failure.status}
        return {"id": reply.prompt.id, "error": said}
    return {
        "id": reply.prompt.id,
        "content": result.content,
        **({"output": msgspec.to_builtins(result.output, enc_hook=plain)} if result.has_output else {}),
        **({"tool_calls": result.tool_calls} if result.tool_calls else {}),
        "finish_reason": result.finish_reason,
        "model": result.model,
        "usage": msgspec.to_builtins(result.usage),
        "cost": result.cost,
        "losses": [msgspec.to_builtins(loss) for loss in result.losses],
    }


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = jsontext.decode(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None
    if not is_object(value):
        raise ConfigError(f"{where}: not a line of replies")
    return value


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _locked(file: int) -> bool:
    """Whether this process may write the file; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _merged(settings: RequestSettings, own: dict[str, Any]) -> RequestSettings:
    """Those of the line win; unknown names are refused where the request is made."""
    return cast(RequestSettings, {**settings, **own})
