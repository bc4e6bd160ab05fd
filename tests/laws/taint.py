"""Whether each field of a wire arrives or is reported: one leaf gets a value that occurs nowhere else, and
the whole is translated.

    arrives    what is made of the body differs
    reported   a loss that names the field, something in it or around it
    refused    an error, or a reply that has failed
    lost       none of these: what the law forbids

Where a field says nothing to anybody but its own protocol, `QUIET` names it, with the reason.
"""

from __future__ import annotations

import argparse
import base64
import copy
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import dragoman
from dragoman.core import jsontext
from dragoman.core.codec import Frame
from dragoman.core.errors import DragomanError
from dragoman.core.losses import Loss
from dragoman.protocols import protocol as protocol_of
from dragoman.protocols import upstream_names
from fuzz import samples
from spoken import SPOKEN

WireKind = Literal["request", "reply", "stream"]
Place = tuple[str | int, ...]
MARK = "tnt7q4"  # a word that nobody writes
NUMBER = 7_340_011
EXTRA = "x_tainted"  # a field that no protocol knows


class Outcome(NamedTuple):
    text: str
    losses: tuple[Loss, ...]
    failed: bool


class Tainted(NamedTuple):
    """`field` is the path without the places in arrays."""

    field: str
    body: Any


def translate(kind: WireKind, source: str, target: str, body: Any) -> Outcome:
    """`body` of the protocol `source` as `target` gets it."""
    if kind == "request":
        exchange = dragoman.Exchange(source, target)
        try:
            made: Any = exchange.request(copy.deepcopy(body))
        except DragomanError as error:
            return Outcome(str(error), (), failed=True)
        return Outcome(_text(made), tuple(exchange.losses), failed=False)
    exchange = dragoman.Exchange(target, source, reply_created=1)
    try:
        if kind == "reply":
            out = _text(exchange.response(copy.deepcopy(body)))
            return Outcome(out, tuple(exchange.losses), exchange.failure is not None)
        stream = exchange.stream()
        sent = stream.feed(_printed(source, body)) + stream.close()
        return Outcome(sent.decode(), tuple(exchange.losses), stream.failure is not None)
    except DragomanError as error:
        return Outcome(str(error), (), failed=True)


def tainted(body: Any) -> Iterator[Tainted]:
    """`body` with one leaf after the other replaced, and one object after the other with a field more.

    In a stream, which is an array of frames, all frames that say the same there change together.
    """
    streamed = isinstance(body, list)
    groups: dict[tuple[str, str], list[tuple[Place, Any]]] = {}
    for path, value in _places(body):
        added = {**value, EXTRA: MARK} if isinstance(value, dict) else None
        other = added or _taint(value)
        if other is not None and path and not (streamed and len(path) < 2):
            field = _field((*path, EXTRA) if added else path)
            same = "" if added else repr(value)
            if not streamed:
                same = repr(path)
            groups.setdefault((field, same), []).append((path, other))
        elif other is not None and not path:
            yield Tainted(EXTRA, other)
    for (field, _), places in groups.items():
        changed = body
        for path, other in places:
            changed = _with(changed, path, other)
        yield Tainted(field, changed)


def fate(before: Outcome, after: Outcome, field: str) -> str:
    if after.failed:
        return "refused"
    if after.text != before.text:
        return "arrives"
    if set(after.losses) != set(before.losses):
        return "reported"
    names = {name for step in re.split(r"[.\[\]]+", field) for name in SPELLED.get(step, (step,))}
    for loss in after.losses:
        steps = [step for step in re.split(r"[.\[\]\d]+", loss.where) if step]
        covered = COVERED.get(loss.code)
        if (steps and steps[-1] in names) or (covered and re.fullmatch(covered, field)):
            return "reported"
    return "lost"


# What a loss says of fields elsewhere
COVERED = {"tool.choice.changed": r"tools\[\]\..*"}  # those that are not allowed are not sent
# What frames call the pieces of a whole reply, which losses name
SPELLED = {
    "content_block": ("content",),
    "delta": ("content", "steps", "summary"),
    "step": ("steps",),
    "item": ("output",),
    "citation": ("citations",),
}


def _taint(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return NUMBER
        case float():
            return 0.734
        case "":
            return None
        case str() if value.startswith("data:"):
            return value.partition(",")[0] + "," + base64.b64encode(MARK.encode()).decode()
        case str() if value.startswith(("http://", "https://")):
            return f"https://{MARK}.test/a.png"
        case str() if value.lstrip()[:1] == "{":
            return json.dumps({"a": MARK})
        case str():
            return MARK
        case _:
            return None


def _places(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield path, value
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for step, item in inner:
        yield from _places(item, (*path, step))


def _with(body: Any, path: Place, value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    out = copy.copy(body)
    out[first] = _with(body[first], tuple(rest), value)
    return out


def _field(path: Place) -> str:
    found = "".join("[]" if isinstance(step, int) else f".{step}" for step in path)
    return found.removeprefix("[][]").lstrip(".")


def _text(value: Any) -> str:
    return jsontext.encode(value).decode()


def _printed(source: str, frames: list[list[Any]]) -> bytes:
    encoder = protocol_of(source).framing.encoder()
    out: list[bytes] = []
    for name, data in frames:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        out += encoder.feed(Frame(name, text.encode()))
    return b"".join(out)


# What a client of another protocol need not know: kinds and protocol, fields (regular expressions), why
QUIET: tuple[tuple[str, str, str], ...] = (
    (r"(reply|stream) .*", r"(.*\.)?(type|object|role)", "one value fits the place"),
    (r"stream .*", r"", "the name of an event, which its data repeats"),
    (r"stream .*", r"(.*\.)?(index|\w+_index|sequence_number|obfuscation|item_id|token_id)", "framing"),
    (r"(reply|stream) .*", r"(.*\.)?(created|created_at|completed_at|createTime)", "a time"),
    (
        r"(reply|stream) .*",
        r"(.*\.)?(index|logprobs|avgLogprobs|score|total_?[tT]oken(s|Count))",
        "a place, a sum or a mean",
    ),
    (
        r"(reply|stream) .*",
        r"((response|message)\.)?(usage|usageMetadata)\..*",
        "kinds of tokens, and prices",
    ),
    (
        r"(reply|stream) openai-chat",
        r"(system_fingerprint|service_tier|provider|request_id|metadata|usage_breakdown|x_groq|timings|time_info"
        r"|prompt_filter_results|choices\[\]\.(native_finish_reason|content_filter_results|seed|text))\b.*",
        "how the reply was served, and what filters found harmless",
    ),
    (
        r"reply openai-chat",
        r"temperature|top_p|frequency_penalty|presence_penalty|seed|tools\b.*|tool_choice\b.*|response_format\b.*"
        r"|input_user",
        "a stored completion repeats its request",
    ),
    (r"stream openai-chat", r"choices\[\]\.delta\.(channel|phase|status)", "what the fields beside it say"),
    (r"reply openai-chat", r"choices\[\]\.message\.content\[\]\.closed", "a part of a whole reply is closed"),
    (r"(reply|stream) gemini", r"candidates\[\]\.safetyRatings\b.*", "what filters found harmless"),
    (
        r"(reply|stream) gemini",
        r".*\.groundingSupports\[\]\.segment\.(text|x_tainted)",
        "the words that the offsets point to",
    ),
    (
        r"(reply|stream) gemini",
        r".*\.groundingSupports\[\]\.segment\.endIndex",
        "an offset behind the end is the end",
    ),
    (r"stream gemini", r".*\.partialArgs\[\]\..*", "how a call is cut into pieces"),
    (
        r"(reply|stream) openai-responses",
        r"(response\.)?(tools|text|reasoning|tool_choice|instructions|temperature|top_p|store|status|user|metadata"
        r"|parallel_tool_calls|max_output_tokens|background|truncation|previous_response_id|service_tier"
        r"|prompt_cache_\w+|safety_identifier|top_logprobs|max_tool_calls|frequency_penalty|presence_penalty"
        r"|conversation|moderation|billing)\b.*",
        "repeats the request",
    ),
    (
        r"(reply|stream) openai-responses",
        r"(response\.)?(incomplete_details|tool_usage|content_filters|output_text|output\[\]\.(id|status))\b.*",
        "repeats what the items say, and what filters found harmless",
    ),
    (
        r"stream openai-responses",
        r"((response\.output|item|part|annotation|delta)\b.*|[^.]+|timings\..*|copilot_usage\..*)",
        "pieces of an item, and the whole item, which repeat each other",
    ),
    (r"stream anthropic", r"content_block\.(input\..*|signature)|message\.stop_reason", "the deltas say it"),
    (r"\w+ anthropic", r".*\bcaller\..*", "who called is in its type"),
    (r"stream anthropic", r"amazon-bedrock-invocationMetrics\b.*", "how the reply was served"),
    (
        r"(reply|stream) anthropic",
        r"context_management\..*",
        "what was cleared, which only its own clients ask for",
    ),
    (r"(reply|stream) openai-chat", r"choices\[\]\.(stop_reason|matched_stop)", "a number is a token"),
    (r"(reply|stream) gemini", r"turnToken", "a name of the reply"),
    (r"(reply|stream) gemini", r"candidates\[\]\.finishMessage", "at an ordinary end it says nothing new"),
    (r"(reply|stream) gemini", r"promptFeedback\.blockReason", "every reason is a filter"),
    (r"(reply|stream) openai-responses", r"output\[\]\.namespace", "of a tool that nobody declared in one"),
    (
        r"reply openai-responses",
        r".*annotations\[\]\.(start|end)_index",
        "an offset behind the end is the end",
    ),
    (
        r"(reply|stream) gemini-interactions",
        r"(interaction\.)?(tools|generation_config|system_instruction|response_format|labels|environment_id"
        r"|previous_interaction_id|service_tier|updated)\b.*",
        "repeats the request, and how it was served",
    ),
    (
        r"(reply|stream) gemini-interactions",
        r"steps?(\[\])?\.server_name",
        "a call and its result repeat each other",
    ),
    (r"reply gemini-interactions", r"errors\[\]\..*", "the code says it, or the loss of another code"),
    (r"stream gemini-interactions", r"step\.arguments\..*", "the deltas say it"),
    (
        r"stream gemini-interactions",
        r"(metadata|usage|step_usage|interaction\.usage)\b.*",
        "kinds of tokens, and what was counted up to here",
    ),
    (
        r"stream gemini-interactions",
        r"event_id|interaction_id|status|interaction\.(id|status)",
        "framing: the first event names the interaction, the last one says how it ended",
    ),
    (
        r"(reply|stream) bedrock-converse",
        r"(metrics|trace|performanceConfig|serviceTier)\b.*",
        "how it was served, and what a guardrail looked at",
    ),
    (r"stream bedrock-converse", r"contentBlockIndex|p", "framing, and padding"),
    (r"request gemini-interactions", r"input\[\].*\.mime_type", "of a URI, whose server says it"),
    (r"request .*", r"model|stream", "the URL says it"),
    (r"request openai-chat", r"stream_options\..*", "read where the client's stream is written"),
    (
        r"request .*",
        r"(.*\.)?(role|index)|(.*\.)?(tool_choice|tool_calls\[\]|user_location|thinking\[\]|summary\[\]|container)\.type"
        r"|mcp_servers\[\]\.type|tools\[\]\.name|.*\.source\.media_type",
        "one value fits the place",
    ),
    (r"request anthropic", r"cache_control\..*", "automatic caching, which the others do unasked"),
    (r"request .*", r".*\.(prompt_cache_breakpoint|cache_control)\..*", "a mark, whatever it holds"),
    (
        r"request .*",
        r"(response_format\.json_schema|text\.format)\.(name|strict)",
        "there every schema is strict",
    ),
    (r"request .*", r"tools\[\]\.(function\.)?strict", "where a call is demanded, Gemini checks each one"),
    (
        r"request .*",
        r"reasoning\.(summary|generate_summary)|thinking\.display|generation_config\.thinking_summaries",
        "how long a summary is",
    ),
    (r"request .*", r".*property_?[oO]rdering\[\]", "an order of keys"),
    (r"request gemini", r"toolConfig\.includeServerSideToolInvocations", "a switch of Gemini's own tools"),
    (r"request gemini", r"generationConfig\.responseLogprobs", "a number of logprobs asks for them"),
    (r"request gemini", r"contents\[\]\.parts\[\]\.functionResponse\.name", "the id says whose result it is"),
    (r"request anthropic", r"messages\[\]\.content\[\]\.is_error", "the text of the result says it"),
    (r"request openai-responses", r"input\[\]\.(id|namespace)", "the call says it"),
    (r"request openai-responses", r"input\[\]\.status", "an item of a history has ended"),
    (r"request openai-chat", r"messages\[\]\.reasoning", "reasoning_content beside it says the same"),
    (r"request openai-responses", r"input\[\]\.tools\[\]\.parameters\..*", "the tool is declared above, too"),
)


def is_listed(kind: WireKind, protocol: str, field: str) -> bool:
    """Whether the field may be lost."""
    return any(
        re.fullmatch(what, f"{kind} {protocol}") and re.fullmatch(fields, field) for what, fields, _ in QUIET
    )


class Sample(NamedTuple):
    kind: WireKind
    protocol: str
    body: Any


class Finding(NamedTuple):
    kind: WireKind
    source: str
    target: str
    field: str
    fate: str


def check(samples: Iterable[Sample], limit: int = 1) -> Iterator[Finding]:
    """The fate of each field of the samples at each other protocol, `limit` times for fields of one name."""
    seen: Counter[tuple[Any, ...]] = Counter()
    for (kind, source, body), target in product(samples, SPOKEN):
        if target == source or (before := translate(kind, source, target, body)).failed:
            continue
        for field, changed in tainted(body):
            seen[kind, source, target, field] += 1
            if seen[kind, source, target, field] <= limit:
                after = translate(kind, source, target, changed)
                yield Finding(kind, source, target, field, fate(before, after, field))


def lost(findings: Iterable[Finding]) -> list[Finding]:
    return [it for it in findings if it.fate == "lost" and not is_listed(it.kind, it.source, it.field)]


def of_the_tree(protocol: str) -> Iterator[Sample]:
    for body in samples.requests(protocol) if protocol in SPOKEN else ():
        yield Sample("request", protocol, body)
    for body in samples.replies(protocol):
        yield Sample("reply", protocol, body)
    for frames in samples.frames(protocol):
        yield Sample("stream", protocol, [list(frame) for frame in frames])


_OTHER_NAMES = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic_messages": "anthropic",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Taint each field of recorded wires")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--limit", type=int, default=2, help="how often a field of one name is tried")
    given = parser.parse_args()
    wires = (
        [*recorded(given.files)] if given.files else [wire for name in SPOKEN for wire in of_the_tree(name)]
    )
    found = [*check(wires, given.limit)]
    print(f"{len(wires)} wires, {len(found)} fields:", dict(Counter(it.fate for it in found).most_common()))
    silent = Counter((it.kind, it.source, it.target, it.field) for it in lost(found))
    for finding, times in sorted(silent.items()):
        print("lost", *finding, f"({times})")
    sys.exit(bool(silent))


def recorded(files: list[Path]) -> Iterator[Sample]:
    for file in files:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            protocol = str(_OTHER_NAMES.get(row["protocol"]) or row["protocol"])
            if protocol not in (SPOKEN if row["kind"] == "request" else upstream_names()):
                continue
            if row["kind"] == "stream":
                frames = [[event["event"] or "", event["data"]] for event in row["events"]]
                yield Sample("stream", protocol, frames)
            elif row["kind"] in ("request", "response") and isinstance(row["body"], dict):
                kind = "request" if row["kind"] == "request" else "reply"
                yield Sample(kind, protocol, row["body"])


if __name__ == "__main__":
    main()
