"""`generate`: a table of prompts in, a table with the replies of a model out.

It sends what `generate_many` sends, with the same limits, retries and costs. With a checkpoint each reply is
also a line of a file, as `generate_file` writes it, and a row that has a line is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from hashlib import blake2s
from pathlib import Path
from typing import Any, Unpack, cast

from dragoman.client.background import wait_for
from dragoman.client.batch_files import PromptLine, ReplyFile, reply_row
from dragoman.client.many import BatchOptions, PromptBatch, RateLimit
from dragoman.client.messages import Prompt, messages_of
from dragoman.client.providers import Model
from dragoman.client.tools import declare_tool, tools_of
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError, DragomanError
from dragoman.datasets.columns import LOSS, Table, conversation_type, pa, rows_of
from dragoman.datasets.tables import arrow_table, ids_of, table_like

COLUMNS = {
    "content": pa.string(),
    "tool_calls": pa.string(),  # JSON text: arguments have fields of their own each
    "finish_reason": pa.string(),
    "answered_by": pa.string(),
    "input_tokens": pa.int64(),
    "output_tokens": pa.int64(),
    "cost": pa.float64(),
    "losses": pa.list_(LOSS),
    "error": pa.string(),
}


class GenerateOptions(BatchOptions, total=False):
    """Every keyword of `generate` beside those of `generate_many`."""

    id: str  # the column that names a row in the checkpoint; without it rows are numbered
    checkpoint: str | Path  # a file of replies
    retry_failed: bool  # send again what ended in an error before


def generate(
    table: Any, model: str | Model, column: str = "prompt", **options: Unpack[GenerateOptions]
) -> Table:
    """The table with a reply to each prompt: COLUMNS in place of `column`.

    A prompt is a text, or a list of messages as structs or as JSON text. A row that fails has an `error`.
    What no other row could survive, such as a wrong key, raises. A checkpoint knows rows by their `id`, and
    belongs to its prompts, its model and its settings.
    """
    return generate_with(table, model, column, options)


def generate_with(
    table: Any,
    model: str | Model,
    column: str,
    options: GenerateOptions,
    limits: tuple[RateLimit, RateLimit] | None = None,
) -> Table:
    """`limits` of requests and tokens, instead of those of this call alone."""
    arrow = arrow_table(table)
    conversation_type(arrow.schema, column)
    own = {"id", "checkpoint", "retry_failed"}
    asked = cast(BatchOptions, {name: value for name, value in options.items() if name not in own})
    batch = PromptBatch(model, None, asked, arrow.num_rows, limits)
    names = [*ids_of(arrow, options.get("id", "id"))]
    if len({*names}) < len(names):
        raise ConfigError(f"two rows have the same {options.get('id', 'id')}: a row needs one of its own")
    prompts = {name: row[column] for name, row in zip(names, rows_of(arrow, (column,)), strict=True)}
    settings = settings_of(model, options)
    keys = {name: key_of(prompt, settings) for name, prompt in prompts.items()}
    rows = wait_for(_replies(batch, prompts, keys, options))
    kept = {name: arrow.column(name) for name in arrow.schema.names if name != column and name not in COLUMNS}
    return table_like(arrow, kept | reply_columns([rows[name] for name in names]))


def reply_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [_values(row) for row in rows]
    return {name: pa.array([row.get(name) for row in values], kind) for name, kind in COLUMNS.items()}


def settings_of(model: str | Model, options: Mapping[str, Any]) -> str:
    """All that a reply depends on beside its prompt. Of tools that is what the model is told of them."""
    settings = {name: value for name, value in options.items() if name not in _BESIDE}
    if tools := settings.get("tools"):
        settings["tools"] = [declare_tool(each) for each in tools_of(tools)]
    return repr((str(model), [(name, repr(value)) for name, value in sorted(settings.items())]))


def key_of(asked: Any, settings: str) -> str:
    """The same for what is asked of the same model with the same settings."""
    return blake2s(repr((asked, settings)).encode(errors="replace")).hexdigest()[:32]


_BESIDE = (  # what changes no reply
    *("id", "checkpoint", "retry_failed"),
    *("concurrency", "requests_per_minute", "tokens_per_minute", "progress", "timeout", "tries"),
)


async def _replies(
    batch: PromptBatch[Any], prompts: Mapping[str, Any], keys: Mapping[str, str], options: GenerateOptions
) -> dict[str, Mapping[str, Any]]:
    """A row of the checkpoint for the name of each prompt."""
    rows: dict[str, Mapping[str, Any]] = {}
    with ExitStack() as stack:
        file = None
        if path := options.get("checkpoint"):
            file = stack.enter_context(ReplyFile(Path(path), options.get("retry_failed", False)))
            rows = {str(row["id"]): row for row in _lines(Path(path), keys)}
        batch.progress.skipped = len(rows)
        lines: list[tuple[int, PromptLine]] = []
        for index, (name, value) in enumerate(prompts.items()):
            if name not in rows:
                try:
                    lines.append((index, PromptLine(name, _prompt(value), {})))
                except DragomanError as error:
                    rows[name] = {"id": name, "error": {"message": str(error)}}

        async def ask(line: PromptLine) -> Any:
            return await batch.ask(line.prompt)

        async with aclosing(batch.replies(iter(lines), ask)) as batches:
            async for replies in batches:
                for reply in replies:
                    rows[str(reply.prompt.id)] = row = reply_row(reply)
                    if file:
                        file.append({**row, "prompt": keys[str(reply.prompt.id)]})
                    batch.count(reply)
    return rows


def _lines(path: Path, keys: Mapping[str, str]) -> Iterable[Mapping[str, Any]]:
    """Those of the rows with `keys`, each of which has a reply to its own prompt."""
    with path.open("rb") as file:
        for line in file:
            row: Mapping[str, Any] = jsontext.decode(line)
            if (name := str(row["id"])) not in keys:
                continue
            if row.get("prompt", keys[name]) != keys[name]:
                raise ConfigError(
                    f"{path}: the reply of row {name!r} is to another prompt, of another model "
                    "or with other settings. Choose another checkpoint."
                )
            yield row


def _prompt(value: Any) -> Prompt:
    """Text that is a JSON array of objects holds messages."""
    prompt: Any = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if isinstance(prompt, str) and prompt.lstrip()[:1] == "[":
        try:
            given = jsontext.decode(prompt)
        except ValueError:
            given = None
        if jsontext.is_array(given) and given and all(map(jsontext.is_object, given)):
            prompt = given
    messages_of(prompt)  # raises where the prompt is wrong, before anything is sent
    return prompt


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the checkpoint as columns."""
    if error := row.get("error"):
        return {"error": error["message"]}
    usage = row["usage"]
    calls = row.get("tool_calls")
    return {
        **{name: row.get(name) for name in ("content", "finish_reason", "cost")},
        "tool_calls": jsontext.dumps(calls) if calls else None,
        "answered_by": row["model"],
        "input_tokens": usage["input"],
        "output_tokens": usage["output"],
        "losses": [
            {"code": loss["code"] or loss["kind"], "severity": loss["severity"], "where": loss["where"]}
            for loss in row["losses"]
        ],
    }
