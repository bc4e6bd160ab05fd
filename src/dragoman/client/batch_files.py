"""`generate_file` and `agenerate_file`: prompts from a JSONL file, replies into another, resumable.

The output is the only record of what is done: each reply is one line, appended by one write, so a process
that is killed leaves whole lines and at most a torn last one, which the next run removes. Prompts without a
line are sent again; those with a line are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any, BinaryIO, Unpack, cast

import msgspec
from msgspec import Struct

from dragoman.client.background import wait_for
from dragoman.client.file_lock import lock
from dragoman.client.many import BatchOptions, Progress, PromptBatch, PromptReply
from dragoman.client.messages import Prompt
from dragoman.client.output import OutputSpec
from dragoman.client.providers import Model
from dragoman.client.results import Result
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


class FileOptions(BatchOptions, total=False):
    """Every keyword of `generate_file` beside `output`."""

    retry_failed: bool  # send again what ended in an error before


async def agenerate_file(
    source: str | Path,
    target: str | Path,
    model: str | Model,
    *,
    output: OutputSpec[Any] = None,
    **options: Unpack[FileOptions],
) -> Progress:
    """Send each line of `source` to `model`, append its reply to `target`; what is there already is skipped.

    A line of `source` is a JSON string, or an object with `prompt` or `messages`, and optionally an `id` and
    settings of its own (`system`, `temperature`, …). A line of `target` has the `id` and `content`, `output`,
    `tool_calls`, `finish_reason`, `model`, `usage`, `cost`, `losses`, or an `error`. The options are those of
    `generate_many`, and `retry_failed`, which sends again what ended in an error before.
    """
    retry_failed = options.pop("retry_failed", False)
    batch = PromptBatch(model, output, options, _count(Path(source)))

    async def ask(line: PromptLine) -> Result[Any]:
        return await batch.ask(line.prompt, line.settings)

    with ReplyFile(Path(target), retry_failed) as replies_file, Path(source).open("rb") as file:
        lines = _open_lines(file, str(source), replies_file, batch.progress)
        async with aclosing(batch.replies(lines, ask)) as batches:
            async for replies in batches:
                for reply in replies:
                    replies_file.append(reply_row(reply))
                    batch.count(reply)
    return batch.progress


def generate_file(
    source: str | Path,
    target: str | Path,
    model: str | Model,
    *,
    output: OutputSpec[Any] = None,
    **options: Unpack[FileOptions],
) -> Progress:
    """Like `agenerate_file`, for code that is not async."""
    return wait_for(agenerate_file(source, target, model, output=output, **options))


class ReplyFile:
    """The output: which ids it holds, and a way to append one. Only one process may write it at a time."""

    def __init__(self, path: Path, retry_failed: bool) -> None:
        self._path, self._retry_failed = path, retry_failed
        self.done: set[str | int] = set()

    def __enter__(self) -> ReplyFile:
        self._file = self._open()
        try:
            if remaining := self._read():
                os.replace(remaining, self._path)
                os.close(self._file)
                self._file = self._open()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def append(self, row: Mapping[str, Any]) -> None:
        """One write with O_APPEND: the line is there as a whole, or cut only by a full disk."""
        line = jsontext.encode(row) + b"\n"
        if os.write(self._file, line) < len(line):
            raise OSError(
                f"{self._path}: the disk is full. Free some space and run it again: it goes on from here"
            )

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        if not lock(file) or os.fstat(file).st_ino != os.stat(self._path).st_ino:
            os.close(file)
            raise ConfigError(f"{self._path}: another process writes it")
        return file

    def _read(self) -> Path | None:
        """Take the ids of all whole lines and cut off a torn last one.

        With `retry_failed`: a file beside it without the failed lines, which is to take its place.
        """
        end, remaining = 0, self._path.with_name(f".{self._path.name}.tmp") if self._retry_failed else None
        with ExitStack() as stack:
            lines = stack.enter_context(os.fdopen(os.dup(self._file), "rb"))
            copy = stack.enter_context(remaining.open("wb")) if remaining else None
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                row = _decode(line, f"{self._path}:{number}")
                if not is_object(row) or "id" not in row:
                    raise ConfigError(f"{self._path}:{number}: not a line of replies: it has no id")
                if not copy or "error" not in row:
                    self.done.add(row["id"])
                    if copy:
                        copy.write(line)
                end += len(line)
        os.ftruncate(self._file, end)
        return remaining


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
    value = _decode(raw, where)
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


def reply_row(reply: PromptReply[PromptLine, Any]) -> Mapping[str, Any]:
    result, error = reply.result, reply.error
    if result is None:
        problem: dict[str, Any] = {"message": str(error)}
        if isinstance(error, UpstreamError):
            problem |= {"kind": error.failure.kind, "status": error.failure.status}
        return {"id": reply.prompt.id, "error": problem}
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


def _decode(line: bytes, where: str) -> Any:
    try:
        return jsontext.decode(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None


def _count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
