"""What is remembered of a conversation was made under facts: the profile, the origin, the tools. One of them
changes between two requests, and the second must come out as if nothing were remembered: the same bytes, and
the same losses in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.fold import Fold
from dragoman.core.model import (
    AnyPart,
    Base64,
    Foreign,
    Media,
    Message,
    Reasoning,
    Refusal,
    Request,
    Settings,
    State,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.memory.conversation_memory import Found, Reading
from dragoman.protocols import names, protocol, upstream_names
from laws.test_history_laws import agrees, written
from laws.test_history_laws import small_bodies as small_bodies
from laws.test_prefix_laws import FIRST, MODELS

# One upstream for each way to write messages: clouds take those of a vendor
UPSTREAMS = list(
    {protocol(name).codec.conversation.encode_messages: name for name in upstream_names()[::-1]}.values()
)
PAIRS = [(client, target) for client in names() for target in UPSTREAMS]
every_pair = pytest.mark.parametrize("client, upstream", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
PNG = Media("image", "image/png", Base64("iVBORw0KGgo="))
PDF = Media("document", "application/pdf", Base64("JVBERi0="))


def session(client: str) -> Request:
    """A conversation in which every fact shows: reasoning of several makers, images in results, a refusal,
    system text inside, names and ids that few upstreams take, a call without an answer."""
    turns: tuple[tuple[AnyPart, ...], ...] = (
        (
            Reasoning("Mine.", state=State(client, "c2ln")),
            Text("I look."),
            ToolCall("c1", "list", "{}"),
            ToolCall("c 2/ü", "read.file", '{"path":"a"}'),
        ),
        (Reasoning("Not signed."), Text("One."), Text("Two."), ToolCall("call_a_b", "a_b", "{}")),
        (
            Reasoning("Theirs.", state=State("elsewhere", "c2ln")),
            Text("Signed.", state=State("gemini", "eA")),
        ),
        (Refusal("I will not."),),
        (Text("Said."), ToolCall("c9", "patch", "*** Begin", kind="custom")),
        (ToolCall("c1", "list", "{}"),),  # an id that came before
    )
    messages: list[Message] = [*FIRST.messages]
    for number, parts in enumerate(turns):
        messages.append(Message("assistant", parts))
        calls = [part for part in parts if isinstance(part, ToolCall)]
        results = [ToolResult(call.id, call.name, (Text("r"), PNG), kind=call.kind) for call in calls]
        # with two in `FIRST` as many as an upstream takes: with more it wants all messages together
        cache = "5m" if number in (1, 4) else ""
        messages.append(Message("user", (*results, Text(f"Go on {number}.", cache=cache))))
        if number == 3:
            messages += Message("system", (Text("Be brief."),)), Message("user", (PDF, Text("And?")))
    messages += (
        Message("assistant", (ToolCall("c7", "list", "{}"),)),
        Message("user", (Text("Stop."),)),
        Message("assistant", (Text("Yes."),)),
        Message("user", (Text("Go on."),)),
        Message("user", (Text("Now."),)),
    )
    patch = ToolDeclaration("patch", "Freeform.", kind="custom")
    return replace(FIRST, messages=tuple(messages), tools=(*FIRST.tools, patch))


def orderly(client: str) -> Request:
    """A conversation that every upstream takes as it is, so that nothing has to be mended on the way."""
    messages: list[Message] = [Message("user", (Text("Begin. " * 40),))]
    for number in range(5):
        said = (Reasoning("So.", state=State(client, "c2ln")), Text("I look."), Text("Twice."))
        messages.append(
            Message("assistant", (*said[number % 2 :], ToolCall(f"toolu_{number}", "list", "{}")))
        )
        content = (Text("r"), PNG) if number % 3 == 1 else (Text("r"),)
        more = (Text("Thanks."),) if number % 2 else ()
        messages.append(Message("user", (ToolResult(f"toolu_{number}", "list", content), *more)))
    messages += Message("assistant", (Text("Done."),)), Message("user", (Text("More."),))
    return replace(FIRST, messages=tuple(messages), tools=FIRST.tools[1:])


SESSIONS = {"broken": session, "in order": orderly}
both = pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
Session = Callable[[str], Request]


def outcome(exchange: dragoman.Exchange, body: bytes, stream: bool | None) -> Any:
    try:
        sent: Any = exchange.request_bytes(body, stream=stream)
    except DragomanError as error:
        sent = str(error)
    return sent, exchange.losses, exchange.path, exchange.headers


Case = tuple[bytes, dict[str, Any]]


def check(client: str, upstream: str, cases: list[Case]) -> None:
    """Each case after each other one, with one memory; some conversations are known before they are used."""
    memory = dragoman.ConversationMemory()
    for _ in range(3):
        for body, how in cases:
            how = dict(how)
            stream = how.pop("stream", None)
            plain = outcome(dragoman.Exchange(client, upstream, **how), body, stream)
            remembering = outcome(dragoman.Exchange(client, upstream, memory=memory, **how), body, stream)
            assert remembering == plain, how


@both
@pytest.mark.parametrize("client, upstream", [pair for pair in PAIRS if pair[0] != pair[1]])
def test_a_session_goes_on_from_a_checkpoint(
    client: str, upstream: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the laws below compare nothing with nothing. Equal protocols pass a request on as it is."""
    found: list[bool] = []
    find = Reading.find

    def note(reading: Reading, folds: tuple[Fold, ...], place: int) -> Found | None:
        checkpoint = find(reading, folds, place)
        found.append(checkpoint is not None)
        return checkpoint

    monkeypatch.setattr(Reading, "find", note)
    check(client, upstream, [(written(client, session(client)), {})])
    assert any(found)


OTHER_VALUES: dict[str, Any] = {
    "max_output": 4000, "min_output": 90_000, "default_output": 777, "images": False, "tools": False,
    "parallel_calls": False, "strict": True, "structured_output": True, "hosted_tools": (), "max_tools": 1,
    "tool_search": True, "custom_tools": True, "forced_tools": False, "combined_tools": False,
    "allowed_tools": True, "reasoning": True, "efforts": ("low",), "default_effort": "low", "budget": True,
    "budget_range": (128, 1024), "thinking_display": True, "tools_without_reasoning": True,
    "reasoning_history": "required", "sampling": "none", "refused": ("stop", "parallel"), "verbosity": True,
    "service_tiers": ("flex",), "max_tokens_field": "max_completion_tokens",
    "cache_breakpoints": "cache_control", "automatic_cache": True, "system_messages": True, "prefill": True,
    "assistant_after_tool": True, "text_parts": False, "refusals": True, "media_in_results": False,
    "signed_calls": False, "call_state": True, "call_id": "[a-z0-9]{9}", "call_id_length": 9,
    "required_choice": "any", "reasoning_beside_output": True, "stream_usage": False,
    "transcript": True,
}  # fmt: skip
_NOT_WRITTEN = {"context_window", "price"}


def test_every_field_of_a_profile_is_varied() -> None:
    assert OTHER_VALUES.keys() == set(ModelProfile.__struct_fields__) - _NOT_WRITTEN


@both
@every_pair
def test_the_profile(client: str, upstream: str, session: Session) -> None:
    body = written(client, session(client))
    profiles = [ModelProfile(**{name: value}) for name, value in OTHER_VALUES.items()]
    profiles += [
        ModelProfile(reasoning_history="taken"),
        ModelProfile(cache_breakpoints="prompt_cache_breakpoint"),
    ]
    check(client, upstream, [(body, {"profile": each}) for each in (ModelProfile(), *profiles)])


@both
@every_pair
def test_the_origin(client: str, upstream: str, session: Session) -> None:
    body = written(client, session(client))
    check(
        client, upstream, [(body, {"origin": each}) for each in ("", client, "elsewhere", "gemini", "other")]
    )


@both
@every_pair
def test_images_dialect_strictness_and_recovery(client: str, upstream: str, session: Session) -> None:
    body = written(client, session(client))
    hows: list[dict[str, Any]] = [{}, {"images": "summary"}, {"recover": True}, {"strict": True}]
    hows += [{"dialect": name} for name in ("hermes", "roo-xml", "qwen3-coder")]
    check(client, upstream, [(body, how) for how in hows])


SETTINGS: dict[str, Settings] = {
    "nothing": Settings(max_tokens=9000),
    "off": Settings(max_tokens=9000, effort="none"),
    "no budget": Settings(max_tokens=9000, budget=0),
    "a budget": Settings(max_tokens=9000, budget=2000),
    "effort": Settings(max_tokens=9000, effort="high"),
}


@pytest.mark.parametrize(
    "profile", [{}, {"reasoning_history": "required"}, {"reasoning": True, "budget": True}]
)
@both
@every_pair
def test_thinking(client: str, upstream: str, session: Session, profile: dict[str, Any]) -> None:
    request = session(client)
    bodies = [written(client, replace(request, settings=each)) for each in SETTINGS.values()]
    how = {"profile": ModelProfile(**profile)}
    check(client, upstream, [(body, how) for body in bodies])


@both
@every_pair
def test_streaming(client: str, upstream: str, session: Session) -> None:
    body = written(client, session(client))
    check(client, upstream, [(body, {"stream": each}) for each in (None, False, True)])


@pytest.mark.parametrize("dialect", [None, "hermes"])
@both
@every_pair
def test_tools_names_and_choice(client: str, upstream: str, session: Session, dialect: str | None) -> None:
    """Two names become one where an upstream takes no dot: which of them is spelled how depends on all."""
    request = session(client)
    more = [
        ToolDeclaration(name, "One more.", {"type": "object"}) for name in ("read_file", "a.b", "a_b", "walk")
    ]
    lists = [
        request.tools,
        (),
        request.tools[:1],
        (*request.tools, *more),
        (*more[:2], *request.tools),
        tuple(more),
    ]
    variants = [replace(request, tools=each) for each in lists]
    choices = [
        ToolChoice("auto"),
        ToolChoice("none"),
        ToolChoice("required"),
        ToolChoice("required", ("list",)),
    ]
    variants += [replace(request, tool_choice=each) for each in choices]
    variants += [replace(request, parallel=each) for each in (True, False)]
    check(client, upstream, [(written(client, each), {"dialect": dialect}) for each in variants])


@both
@every_pair
def test_system_text(client: str, upstream: str, session: Session) -> None:
    request = session(client)
    front = Message("system", (Text("In front."),))
    variants = [
        replace(request, system=each) for each in (request.system, (), (Text("Other."), Text("Two.")))
    ]
    variants += [replace(each, messages=(front, *each.messages)) for each in variants]
    check(client, upstream, [(written(client, each), {}) for each in variants])


@every_pair
def test_cache_breakpoints_of_the_system_text(client: str, upstream: str) -> None:
    """An upstream takes four: how many are left for the messages depends on the head."""
    mark = {"cache_control": {"type": "ephemeral"}}
    messages: list[Any] = []
    for number in range(5):
        text = {"type": "text", "text": f"Go on {number}. " * 10, **(mark if number in (0, 2) else {})}
        messages += {"role": "user", "content": [text]}, {"role": "assistant", "content": "Yes."}
    messages.append({"role": "user", "content": "Now."})
    bodies = [
        _with_system_text(client, messages, [mark if number < marks else {} for number in range(4)])
        for marks in (0, 2, 3, 0, 4)
    ]
    check(client, upstream, [(body, {}) for body in bodies])


@every_pair
def test_how_long_the_system_text_is_cached(client: str, upstream: str) -> None:
    """A prefix that is cached for an hour stands before all that is cached for five minutes."""
    hour, minutes = ({"cache_control": {"type": "ephemeral", **ttl}} for ttl in ({"ttl": "1h"}, {}))
    messages: list[Any] = []
    for number in range(4):
        text = {"type": "text", "text": f"Go on {number}. " * 10, **(hour if number == 1 else {})}
        messages += {"role": "user", "content": [text]}, {"role": "assistant", "content": "Yes."}
    messages.append({"role": "user", "content": "Now."})
    bodies = [_with_system_text(client, messages, [mark]) for mark in ({}, minutes, hour)]
    check(client, upstream, [(body, {}) for body in bodies])


@both
@every_pair
def test_the_model(client: str, upstream: str, session: Session) -> None:
    """What is known of it follows from its name, where no profile says it."""
    request = session(client)
    names = ("anthropic.claude-opus-4-8", "acme.one", "meta.one", "gpt-5.5", "gemini-3-pro", "claude-2.1")
    bodies = [written(client, replace(request, model=name)) for name in names]
    check(client, upstream, [(body, {}) for body in bodies])


@every_pair
def test_turns_that_say_nothing(client: str, upstream: str) -> None:
    """A turn of the user without text ends that of the model, and two of the user are two messages."""
    messages = [Message("user", (Text("Go. " * 40),)), Message("user", (Text("Now."),))]
    for number in range(3):
        messages += Message("assistant", (Text(f"Yes {number}."),)), Message("user", (Text(" "),))
        messages += Message("assistant", (Text(f"Well {number}."),)), Message("user", (Text("Go on."),))
    ends = [replace(FIRST, messages=tuple(messages[:end]), tools=()) for end in range(2, len(messages) + 1)]
    how = {"profile": ModelProfile(automatic_cache=True)}
    check(client, upstream, [(written(client, each), how) for each in ends for _ in "ab"])


def _with_system_text(client: str, messages: list[Any], marks: list[Any]) -> bytes:
    texts = [{"type": "text", "text": f"Rule {i}.", **mark} for i, mark in enumerate(marks)]
    if client == "anthropic":
        return jsontext.encode({"model": "m", "max_tokens": 99, "system": texts, "messages": messages})
    if client == "openai-chat":
        return jsontext.encode({"model": "m", "messages": [{"role": "system", "content": texts}, *messages]})
    system = tuple([Text(text["text"], cache=_lifetime(text)) for text in texts])
    said = [Message(each["role"], (Text(_plain(each["content"])),)) for each in messages]
    return written(client, Request("m", tuple(said), system))


def _lifetime(text: Any) -> str:
    return text["cache_control"].get("ttl", "5m") if "cache_control" in text else ""


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else content[0]["text"]


@both
@every_pair
def test_where_the_conversation_ends(client: str, upstream: str, session: Session) -> None:
    """What comes last decides about thinking, about fillers, and about what waits for its place."""
    request = session(client)
    ends = [replace(request, messages=request.messages[:end]) for end in range(1, len(request.messages) + 1)]
    bodies = [written(client, each) for each in ends]
    for how in ({}, {"profile": ModelProfile(assistant_after_tool=True, text_parts=False, prefill=True)}):
        check(client, upstream, [(body, how) for body in (*bodies, *bodies[::-1])])


@every_pair
def test_a_name_that_collides_late(client: str, upstream: str) -> None:
    """`a.b` was sent as `a_b` until the model called a tool of that name."""
    tools = tuple([ToolDeclaration(name, "A tool.", {"type": "object"}) for name in ("a.b", "x")])
    messages: list[Message] = [Message("user", (Text("Go. " * 40),))]
    bodies: list[bytes] = []
    for number, name in enumerate(("a.b", "x", "a_b", "c.d", "x")):
        messages.append(Message("assistant", (ToolCall(f"c{number}", name, "{}"),)))
        messages.append(Message("user", (ToolResult(f"c{number}", name, (Text("r"),)),)))
        bodies.append(written(client, replace(FIRST, messages=tuple(messages), tools=tools)))
    check(client, upstream, [(body, {}) for body in bodies])


@pytest.mark.parametrize("late", [False, True], ids=["never", "late"])
@every_pair
def test_one_interrupted_call(client: str, upstream: str, late: bool) -> None:
    """It is never answered, or so late that the turn of its call was sent before without a result."""
    messages: list[Message] = [Message("user", (Text("Go. " * 40),))]
    bodies: list[bytes] = []
    for number in range(7):
        call, result = (
            ToolCall(f"c{number}", "list", "{}"),
            ToolResult(f"c{number}", "list", (Text("r"), PNG)),
        )
        parts: tuple[AnyPart, ...] = (Text("Stop."),) if number == 2 else (result,)
        if late and number == 5:
            parts = (ToolResult("c2", "list", (Text("late"),)), *parts)
        messages += Message("assistant", (call,)), Message("user", parts)
        bodies += [written(client, replace(FIRST, messages=tuple(messages)))] * 2
    check(client, upstream, [(body, {}) for body in bodies])


def test_clients_without_ids() -> None:
    """Gemini's clients may leave the ids out: each call is numbered, and answered by name and order."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": "Go. " * 40}]}]
    bodies: list[bytes] = []
    for number in range(6):
        calls = [{"functionCall": {"name": name, "args": {"n": number}}} for name in ("list", "walk")]
        answers = [
            {"functionResponse": {"name": name, "response": {"r": number}}} for name in ("walk", "list")
        ]
        contents += {"role": "model", "parts": calls}, {"role": "user", "parts": answers[: 1 + number % 2]}
        bodies.append(jsontext.encode({"contents": contents}))
    for upstream in MODELS:
        check("gemini", upstream, [(body, {"recover": True}) for body in bodies])


def test_parts_that_only_their_protocol_has() -> None:
    own = Foreign("anthropic", {"type": "container_upload", "file_id": "f"})
    request = session("anthropic")
    messages = (*request.messages[:4], Message("user", (own, Text("?"))), *request.messages[4:])
    body = written("anthropic", replace(request, messages=messages))
    for upstream in MODELS:
        check("anthropic", upstream, [(body, {"recover": True}), (body, {"images": "summary"})])


def test_tools_that_the_conversation_loads() -> None:
    function = {"type": "function", "name": "walk", "parameters": {"type": "object", "properties": {}}}
    items: list[Any] = [
        {"role": "user", "content": "Go. " * 40},
        {"type": "additional_tools", "tools": [function]},
        {"type": "function_call", "call_id": "c1", "name": "walk", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {
            "type": "tool_search_output",
            "call_id": "s1",
            "status": "completed",
            "tools": [{**function, "name": "fly"}],
        },
        {"type": "function_call", "call_id": "c2", "name": "fly", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "r"},
        {"role": "user", "content": "Go on."},
        {"role": "user", "content": "Again."},
    ]
    bodies = [jsontext.encode({"model": "m", "input": items[:end]}) for end in range(3, len(items) + 1)]
    for upstream in MODELS:
        check("openai-responses", upstream, [(body, {"recover": True}) for body in bodies])


def test_tools_that_messages_declare_and_load() -> None:
    """In system messages, by references and by calls: those that wait for it stay out until then."""
    schema: Any = {"type": "object"}
    definition = {"type": "tool_definition", "definition": {"name": "inline", "input_schema": schema}}
    waiting = [
        {"name": name, "input_schema": schema, "defer_loading": True} for name in ("walk", "fly", "swim")
    ]
    reference = {"type": "tool_reference", "tool_name": "fly"}
    messages: list[Any] = [
        {"role": "user", "content": "Go. " * 40},
        {"role": "system", "content": [{"type": "tool_addition", "tool": definition}]},
        {"role": "user", "content": "Now."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "walk", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [reference]}]},
    ]
    for number in range(3):
        messages += {"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"Go on {number}."}
    summary = {"type": "compaction", "content": "So far.", "encrypted_content": "E"}
    compacted = [{"role": "assistant", "content": [summary]}, *messages[5:]]
    for said in (messages, compacted):
        ends = [end for end in range(1, len(said) + 1) if said[end - 1]["role"] == "user"]
        bodies = [
            jsontext.encode({"model": "m", "max_tokens": 99, "tools": waiting, "messages": said[:end]})
            for end in ends
            for _ in "ab"
        ]
        for upstream in MODELS:
            agrees("anthropic", upstream, bodies, recover=True)


def test_a_namespace_that_is_declared_or_not() -> None:
    """OpenAI names a loaded tool as its own namespace: what a call is named depends on the tools."""
    tool = {"type": "function", "name": "rate", "parameters": {"type": "object", "properties": {}}}
    space = {"type": "namespace", "name": "rate", "tools": [tool]}
    items: list[Any] = [
        {"role": "user", "content": "Go. " * 40},
        {"type": "function_call", "call_id": "c1", "namespace": "rate", "name": "rate", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {"role": "user", "content": "Go on."},
        {"role": "user", "content": "Again."},
    ]
    lists: list[list[Any]] = [[tool], [space], [tool, space], [{**tool, "name": "rate__rate"}, tool]]
    bodies = [jsontext.encode({"model": "m", "tools": tools, "input": items}) for tools in lists]
    for upstream in MODELS:
        check("openai-responses", upstream, [(body, {"recover": True}) for body in bodies])


def test_a_result_that_came_before() -> None:
    """In a record it stays, under the name of its call, wherever that stands."""
    call = {"id": "c1", "type": "function", "function": {"name": "list", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "r"}
    messages: list[Any] = [
        {"role": "user", "content": "Go. " * 40},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        result,
    ]
    for number in range(3):
        messages += {"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"Go on {number}."}
        messages.append({**result, "content": f"again {number}"})
    bodies = [
        jsontext.encode({"model": "m", "messages": messages[:end]}) for end in range(3, len(messages) + 1)
    ]
    for upstream in MODELS:
        for transcript in (False, True):
            how = {"recover": True, "transcript": transcript}
            check("openai-chat", upstream, [(body, how) for body in bodies])
