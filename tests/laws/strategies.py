"""Neutral values and wires of every shape that the laws are tried on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from dragoman.core.model import (
    Base64,
    Citation,
    Media,
    Message,
    Reasoning,
    Request,
    Response,
    Settings,
    State,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Url,
    Usage,
)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: text.strip()
)
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", fullmatch=True)
ids = st.from_regex(r"call_[a-zA-Z0-9]{1,12}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(names, values, max_size=3).map(
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
images = st.sampled_from(
    [Media("image", "image/png", Base64(PNG)), Media("image", "", Url("https://example.com/a.png"))]
)
texts = st.builds(Text, words)
calls = st.builds(ToolCall, ids, names, arguments)

schemas = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(
            names, st.sampled_from([{"type": "string"}, {"type": "integer", "description": "n"}]), max_size=3
        ),
    }
)
tools = st.lists(
    st.builds(ToolDeclaration, names, words, schemas), max_size=3, unique_by=lambda tool: tool.name
).map(tuple)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """User and model in turn; every call answered, ids unique."""
    messages: list[Message] = [Message("user", (draw(texts),))]
    used: set[str] = set()
    for _ in range(draw(st.integers(0, 3))):
        made = [
            call
            for call in draw(st.lists(calls, max_size=2, unique_by=lambda call: call.id))
            if call.id not in used
        ]
        used.update(call.id for call in made)
        text = draw(st.lists(texts, max_size=1))
        if not made and not text:
            continue
        messages.append(Message("assistant", (*text, *made)))
        results = [
            ToolResult(call.id, call.name, (draw(texts), *draw(st.lists(images, max_size=1))))
            for call in made
        ]
        question = (
            [draw(texts), *draw(st.lists(images, max_size=1))] if draw(st.booleans()) or not results else []
        )
        messages.append(Message("user", (*results, *question)))
    return tuple(messages)


settings = st.builds(
    Settings,
    max_tokens=st.none() | st.integers(2000, 9000),
    temperature=st.none() | st.sampled_from([0, 0.5, 1]),
    top_p=st.none() | st.just(0.9),
    top_k=st.none() | st.just(5),
    stop=st.none() | st.just(("END",)),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    declared = draw(tools)
    choices = [None, ToolChoice("auto"), ToolChoice("none"), ToolChoice("required")] if declared else [None]
    choices += [ToolChoice("required", (tool.name,)) for tool in declared]
    return Request(
        "some-model",
        draw(conversations()),
        tuple(draw(st.lists(texts, max_size=1))),
        declared,
        draw(st.sampled_from(choices)),
        draw(st.sampled_from([None, True, False])) if declared else None,
        draw(settings),
        draw(st.booleans()),
    )


def states(origin: str) -> st.SearchStrategy[State]:
    return st.builds(State, st.just(origin), st.from_regex(r"[A-Za-z0-9+/]{8,24}={0,2}", fullmatch=True))


@st.composite
def cited_texts(draw: st.DrawFn) -> Text:
    text = draw(words)
    sources = draw(
        st.lists(st.sampled_from(["https://a.test/1", "https://b.test/2"]), max_size=2, unique=True)
    )
    return Text(text, tuple([Citation(url, "Title", "", 0, len(text)) for url in sources]))


@st.composite
def responses(draw: st.DrawFn) -> Response:
    parts: list[Any] = []
    if draw(st.booleans()):
        parts.append(Reasoning(draw(words)))
    parts += draw(st.lists(cited_texts(), max_size=1))
    parts += draw(st.lists(calls, max_size=3, unique_by=lambda call: call.id))
    called = any(isinstance(part, ToolCall) for part in parts)
    reason: StopReason = "tool_calls" if called else draw(st.sampled_from(("end", "length")))
    cached = draw(st.integers(0, 50))
    thought = draw(st.integers(0, 50))
    usage = Usage(cached + draw(st.integers(0, 50)), thought + draw(st.integers(0, 50)), cached, 0, thought)
    return Response("id-1", "some-model", tuple(parts), Stop(reason), usage)
