"""A request translates alike whether its conversation came before or not: bytes, losses, path, headers, and
what the response needs of it. And what is remembered of one caller is nothing to another, and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

import dragoman
from dragoman.core import jsontext
from dragoman.core.errors import DragomanError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Compaction,
    Foreign,
    Media,
    Message,
    Reasoning,
    Request,
    Settings,
    State,
    Text,
    ToolCall,
    ToolDeclaration,
    ToolResult,
)
from dragoman.memory import conversation_memory, prefix_tree
from dragoman.memory.conversation_memory import ConversationMemory, Reading
from dragoman.memory.prefix_tree import MessagePrefix
from dragoman.profiles import profile_of
from dragoman.protocols import codec, names, protocol, upstream_names
from laws.strategies import requests
from laws.test_prefix_laws import DIALECTS, FIRST, MODELS, TURNS, every_pair

few = settings(max_examples=6)
CLOUDS = [name for name in upstream_names() if name not in names() and not protocol(name).codec.session]
PNG = Media("image", "image/png", Base64("iVBORw0KGgo="))


@pytest.fixture(autouse=True)
def small_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_memory, "_SMALLEST", 0)


def written(client: str, request: Request) -> bytes:
    return jsontext.encode(codec(client).encode_request(request, Losses()))


def agrees(client: str, upstream: str, bodies: Iterable[bytes], **how: Any) -> ConversationMemory:
    """Each body becomes the same with the memory of those before it as without any."""
    memory = ConversationMemory()
    for body in bodies:
        plain = dragoman.Exchange(client, upstream, **how)
        remembering = dragoman.Exchange(client, upstream, memory=memory, **how)
        assert outcome(remembering, body) == outcome(plain, body)
    return memory


def outcome(exchange: dragoman.Exchange, body: bytes) -> Any:
    try:
        sent: Any = exchange.request_bytes(body)
    except DragomanError as error:
        sent = str(error)
    ledger = exchange._pipeline.ledger if exchange._pipeline else None  # pyright: ignore[reportPrivateUsage]
    facts = ledger and (ledger.client_ids, ledger.calls, ledger.estimate(), ledger.declared.keys())
    prepared = ledger and ledger.prepared
    return sent, exchange.losses, exchange.path, exchange.headers, exchange.session_key, facts, prepared


def growing(client: str, request: Request) -> list[bytes]:
    """The conversation as an agent sends it: each request twice, as some are retried, and then longer."""
    ends = [i + 1 for i, message in enumerate(request.messages) if message.role != "assistant"]
    return [written(client, replace(request, messages=request.messages[:end])) for end in ends for _ in "ab"]


@every_pair
@few
@given(request=requests())
def test_remembered_or_not(client: str, upstream: str, request: Request) -> None:
    bodies = growing(client, request)
    for how in ({}, {"dialect": "hermes"}, {"images": "summary"}, {"strict": True}):
        agrees(client, upstream, bodies + bodies[-1:], **how)


def script(client: str) -> Request:
    """A long session with everything that depends on more than its message."""
    messages = list(FIRST.messages)
    for number, parts in enumerate(TURNS):
        signed = [signature(part, client) for part in parts]
        messages.append(Message("assistant", tuple(signed)))
        calls = [part for part in parts if isinstance(part, ToolCall)]
        results: list[AnyPart] = [
            ToolResult(
                call.id, call.name, (Text(f"r{number}"), PNG) if number == 1 else (Text(f"r{number}"),)
            )
            for call in calls
        ]
        messages.append(Message("user", (*results, Text(f"Go on {number}.", cache="5m"))))
    return replace(FIRST, messages=tuple(messages))


def signature(part: AnyPart, client: str) -> AnyPart:
    return replace(part, state=State(client, "c2ln")) if isinstance(part, Reasoning) else part


@pytest.mark.parametrize("dialect", DIALECTS)
@every_pair
def test_a_session(client: str, upstream: str, dialect: str | None) -> None:
    provider, model = MODELS[upstream]
    profile = profile_of(model, provider, upstream)
    agrees(client, upstream, growing(client, script(client)), dialect=dialect, profile=profile)


def calling(client: str) -> Request:
    """A session in which most requests end with a result; system text comes in between, and none in front."""
    messages = [Message("user", (Text("Look."),))]
    for number in range(4):
        call = ToolCall(f"call_{number}", "list", f'{{"n":{number}}}')
        result = ToolResult(call.id, call.name, (Text(f"r{number}"),))
        messages += Message("assistant", (Text(f"Round {number}."), call)), Message("user", (result,))
        if number == 1:
            messages += (
                *([] if client == "gemini" else [Message("system", (Text("Be brief."),))]),
                Message("user", (Text("Go on."),)),
            )
    return replace(FIRST, messages=tuple(messages), system=())


@pytest.mark.parametrize("dialect", (None, *dragoman.dialects()))
@every_pair
def test_a_session_of_calls(client: str, upstream: str, dialect: str | None) -> None:
    agrees(client, upstream, growing(client, calling(client)), dialect=dialect)


@pytest.mark.parametrize("dialect", [None, "kimi-k2"])
@pytest.mark.parametrize("upstream", [name for name in names() if name != "gemini"])
def test_a_client_without_ids(upstream: str, dialect: str | None) -> None:
    """Its calls get ids by their number."""
    request = calling("gemini")
    last = (*request.messages[:-1], Message("user", (Text("Stop."),)), Message("user", (Text("Go on."),)))
    for messages in (request.messages, last + request.messages[1:]):
        bodies = [
            re.sub(rb'"id":"\w+",|,"id":"\w+"', b"", body)
            for body in growing("gemini", replace(request, messages=messages))
        ]
        assert not any(b'"id"' in body for body in bodies)
        agrees("gemini", upstream, bodies, dialect=dialect)


@pytest.mark.parametrize("dialect", [None, "hermes"])
@pytest.mark.parametrize("places", [(0,), (1,), (2,), (0, 2), (1, 2)])
@every_pair
def test_results_with_fields_of_their_own(
    client: str, upstream: str, dialect: str | None, places: tuple[int, ...]
) -> None:
    """A message with results that is mended loses its fields, and another one before it is mended too."""
    request = calling(client)
    messages: list[Message] = []
    results = 0
    for message in request.messages:
        if message.role == "user" and isinstance(message.parts[0], ToolResult):
            if results in places:
                message = replace(message, extras={client: {"note": results}})
            results += 1
        messages.append(message)
    stopped = Message("assistant", (ToolCall("stopped", "list", "{}"),)), Message("user", (Text("Stop."),))
    for place in (3, 5, len(messages)):
        broken = replace(request, messages=(*messages[:place], *stopped, *messages[place:]))
        agrees(client, upstream, growing(client, broken), dialect=dialect)


@pytest.mark.parametrize("client", names())
@pytest.mark.parametrize("upstream", CLOUDS)
def test_an_upstream_whose_body_another_protocol_writes(client: str, upstream: str) -> None:
    agrees(client, upstream, growing(client, script(client)))


@pytest.mark.parametrize("client", names())
@pytest.mark.parametrize("upstream", names())
def test_turns_that_go_on(client: str, upstream: str) -> None:
    """A turn with calls is translated before the next message is known: here that belongs to the turn."""
    whole = script(client)
    calls = [
        Message("assistant", (ToolCall(f"goes_on_{i}", "look", "{}"),)) for i in range(2)
    ]  # two messages of one turn
    results = [Message("user", (ToolResult(f"goes_on_{i}", "look", (Text("ok"),)),)) for i in range(2)]
    last = Message("user", (Text("!"),))
    for added in ((*calls, *results), (calls[0], Message("assistant", (Text("So."),)), results[0]), calls):
        for place in (1, len(whole.messages)):
            history = (*whole.messages[:place], *added, *whole.messages[place:], last, *added, last)
            agrees(client, upstream, growing(client, replace(whole, messages=history)))


@pytest.mark.parametrize("dialect", dragoman.dialects())
def test_a_dialect_while_the_tools_change(dialect: str) -> None:
    """What a message becomes depends on the declared tools, the calls before it and how many there were."""
    request = script("openai-chat")
    more = replace(request, tools=(*request.tools, ToolDeclaration("other", "One more.", {"type": "object"})))
    cut = replace(request, messages=(request.messages[0], *request.messages[3:]))  # other calls come before
    bodies = [body for each in (request, more, cut) for body in growing("openai-chat", each)]
    bodies += [written("openai-chat", each) for each in (request, more, replace(request, tools=()))] * 3
    agrees("openai-chat", "openai-chat", bodies, dialect=dialect)


BREAKS: dict[str, tuple[Message, ...]] = {
    "a call without a result": (
        Message("assistant", (ToolCall("x", "list", "{}"),)),
        Message("user", (Text("?"),)),
    ),
    "a result without a call": (Message("user", (ToolResult("gone", "list", (Text("r"),)),)),),
    "the same id again": (
        Message("assistant", (ToolCall("c1", "list", "{}"),)),
        Message("user", (ToolResult("c1", "list", (Text("again"),)),)),
    ),
    "a result that came before": (Message("user", (ToolResult("c1", "list", (Text("again"),)),)),),
    "an id that others refuse": (
        Message("assistant", (ToolCall("a b/c:ü", "list", "{}"),)),
        Message("user", (ToolResult("a b/c:ü", "list", (Text("r"),)),)),
    ),
    "system text inside": (Message("system", (Text("Be brief."),)), Message("user", (Text("?"),))),
    "two turns of the model": (
        Message("assistant", (Text("One."),)),
        Message("assistant", (Text("Two."),)),
        Message("user", (Text("?"),)),
    ),
    "a blank text": (Message("user", (Text(" \n"),)), Message("user", (Text("?"),))),
    "a custom tool": (
        Message("assistant", (ToolCall("k", "patch", "*** Begin", kind="custom"),)),
        Message("user", (ToolResult("k", "patch", (Text("ok"),), kind="custom"),)),
    ),
    "the model last": (Message("assistant", (Text("I was saying "),)),),
}


@pytest.mark.parametrize("messages", BREAKS.values(), ids=BREAKS)
@every_pair
def test_what_has_to_be_mended(client: str, upstream: str, messages: tuple[Message, ...]) -> None:
    tools = (*FIRST.tools, ToolDeclaration("patch", "Freeform.", kind="custom"))
    whole = script(client)
    bodies: list[bytes] = []
    for place in (1, len(whole.messages)):
        broken = (*whole.messages[:place], *messages, *whole.messages[place:], Message("user", (Text("!"),)))
        request = replace(whole, messages=broken, tools=tools)
        bodies += [*[written(client, request)] * 3, *growing(client, request)[-6:]]
        bodies += [written(client, replace(request, tools=FIRST.tools))] * 2  # the same messages, other tools
    agrees(client, upstream, bodies)


@every_pair
def test_settings_and_targets_change_in_between(client: str, upstream: str) -> None:
    memory, request = ConversationMemory(), script(client)
    variants = [
        request,
        replace(request, settings=Settings(effort="none")),
        replace(request, system=(), tools=()),
        replace(request, settings=Settings(max_tokens=3000, budget=2000), stream=True),
    ]
    bodies = [written(client, each) for each in variants]
    models = ["gemini-2.0-flash", "mistral-large-latest", "gpt-5.6", "deepseek-reasoner", "claude-opus-4-1"]
    for _ in range(3):
        for body in bodies:
            for model in models:
                how: Any = {"profile": profile_of(model, "", upstream), "origin": model}
                plain = dragoman.Exchange(client, upstream, **how)
                remembering = dragoman.Exchange(client, upstream, memory=memory, **how)
                assert outcome(remembering, body) == outcome(plain, body)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("upstream", MODELS)
def test_a_system_message_at_the_front(upstream: str, dialect: str | None) -> None:
    """Responses gets it as `instructions` where the request has no system text of its own."""
    wire = jsontext.decode(written("anthropic", script("anthropic")))
    wire["messages"].insert(0, {"role": "system", "content": "Be brief."})
    own, beside = (jsontext.encode(wire | {"system": system}) for system in ([], wire["system"]))
    agrees("anthropic", upstream, [own, own, own, beside, beside, own, beside], dialect=dialect)


def test_responses_items_that_mean_something_else_each_time() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
    items: list[Any] = [
        {"role": "user", "content": "Look."},
        {"type": "item_reference", "id": "msg_1"},
        search,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Found."}]},
        {"type": "function_call", "call_id": "c1", "name": "list", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {"role": "user", "content": "Go on."},
    ]
    bodies = [
        jsontext.encode({"model": "m", "input": items[: i + 1]}) for i in range(len(items)) for _ in "ab"
    ]
    for upstream in MODELS:
        agrees("openai-responses", upstream, bodies)


def test_rows_of_responses_items_that_end_or_go_on() -> None:
    """Behind the same known items a turn of the model is over in one request and goes on in another."""
    user = {"role": "user", "content": "Begin. " * 60}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    calls = [
        {"type": "function_call", "call_id": id, "name": "list", "arguments": "{}"} for id in ("c1", "c2")
    ]
    results = [{"type": "function_call_output", "call_id": id, "output": f"of {id}"} for id in ("c1", "c2")]
    one, both = [user, said, calls[0], results[0]], [user, said, *calls, *results]
    behind = [[], [said], [said, *calls], [user]]
    bodies = [
        jsontext.encode({"model": "m", "input": [*items, *more]}) for items in (one, both) for more in behind
    ]
    for upstream in MODELS:
        agrees("openai-responses", upstream, [*bodies, *bodies, *bodies[::-1], *bodies[::2], *bodies])


def test_contents_with_fields_of_their_own_in_a_request_for_a_summary() -> None:
    """It is no request as the client wrote it, so neighbours of one role are joined; these say another."""
    contents: list[Any] = [
        {"role": role, "parts": [{"text": f"{i} {role}."}]} for i, role in enumerate(["user", "model"] * 3)
    ]
    del contents[2]["role"]
    contents[4] |= {"x": 1}
    contents.insert(5, {"role": "function", "parts": [{"text": "Done."}]})
    bodies = [jsontext.encode({"contents": contents[:end]}) for end in range(3, 8) for _ in "ab"]
    agrees("gemini", "gemini", bodies, dialect="hermes", compaction=Compaction())


def test_a_known_message_is_read_once_for_all_its_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of 250 kB with 2,500 marks was read 2,500 times, which took two seconds. It is read only
    where somebody asks for the values, and then with the whole body."""
    marked = {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}
    messages = [{"role": "user", "content": [marked] * 20}, {"role": "user", "content": "?"}]
    body = jsontext.encode({"model": "m", "messages": messages})
    memory = agrees("openai-chat", "gemini", [body] * 3)
    read, places = MessagePrefix.wire, list[int]()
    monkeypatch.setattr(
        MessagePrefix, "wire", lambda prefix, place: places.append(place) or read(prefix, place)
    )
    exchange = dragoman.Exchange("openai-chat", "gemini", memory=memory)
    exchange.request_bytes(body)
    assert len(exchange.losses) == 20
    assert all(loss.value for loss in exchange.losses)
    assert places == []


@pytest.mark.parametrize("order", ["abc", "bca", "ab", "abcd", "aab"])
def test_results_in_messages_of_their_own(order: str) -> None:
    """Chat has a message for each result; a request may end, and another begin, between them."""
    messages: list[Any] = [{"role": "user", "content": "Begin. " * 20}]
    for turn in range(4):
        function = {"name": "run", "arguments": "{}"}
        calls = [{"id": f"{name}{turn}", "type": "function", "function": function} for name in "abc"]
        messages.append({"role": "assistant", "content": f"Turn {turn}.", "tool_calls": calls})
        for name in order if turn == 2 else "abc":
            messages.append(
                {"role": "tool", "tool_call_id": f"{name}{turn}", "content": f"result {name} " * 9}
            )
    ends = [end for end in range(3, len(messages) + 1) for _ in "ab"]
    bodies = [jsontext.encode({"model": "m", "messages": messages[:end]}) for end in ends]
    for upstream in MODELS:
        agrees("openai-chat", upstream, bodies)
        agrees("openai-chat", upstream, [*bodies[-3:], *bodies[::-1]])


@pytest.mark.parametrize("client", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_earlier_turns_and_branches(client: str) -> None:
    """A request that ends, or goes on in another way, in the middle of what is known."""
    request = script(client)
    bodies = growing(client, request)
    other = Message("user", (Text("Something else. " * 20),))
    branches = [
        written(client, replace(request, messages=(*request.messages[:end], other, *request.messages[end:])))
        for end in (1, 3, len(request.messages))
    ]
    for upstream in MODELS:
        agrees(client, upstream, [*bodies[-2:], *bodies[::-1], *branches * 2, *bodies[-3:]])


def test_tools_that_stand_elsewhere_too() -> None:
    tool = {"name": "run", "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}}}
    messages: list[Any] = [
        {"role": "user" if i % 2 == 0 else "assistant", "content": f"m{i}"} for i in range(5)
    ]
    call = {"type": "tool_use", "id": "c", "name": "run", "input": {"tools": [tool]}}
    quoting = [*messages, {"role": "assistant", "content": [call]}, {"role": "user", "content": "?"}]
    whole: Any = {"model": "m", "max_tokens": 9, "messages": messages, "tools": [tool]}
    variants: list[Any] = [
        whole,
        {"tools": [tool], **whole},
        {**whole, "messages": quoting},
        {**whole, "messages": quoting, "tools": None},
        {"model": "m", "max_tokens": 9, "messages": quoting},
        {**whole, "tools": [tool, {**tool, "name": "walk"}]},
    ]
    bodies = [jsontext.encode(each) for each in variants]
    bodies += [body.replace(b'":', b'": ').replace(b",", b", ") for body in bodies]
    agrees("anthropic", "openai-chat", [body for body in bodies for _ in "abc"] * 2)


def test_any_spelling_of_the_same_body() -> None:
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"é\\u{i}"} for i in range(7)]
    body: Any = {"model": "m", "max_tokens": 9, "messages": messages}
    spaced = jsontext.encode(body).replace(b",", b" ,\n ").replace(b":", b" : ")
    escaped = jsontext.encode(body).replace(b'"messages"', b'"mess\\u0061ges"')
    twice = jsontext.encode(body)[:-1] + b',"messages":[{"role":"user","content":"last one wins"}]}'
    for each in (jsontext.encode(body), spaced, escaped, twice):
        agrees(
            "anthropic",
            "openai-chat",
            [each] * 4 + [each.replace(b"}]", b'},{"role":"user","content":""}]')] * 3,
        )


def test_broken_bodies_fail_alike_after_whole_ones() -> None:
    whole = written("anthropic", script("anthropic"))
    broken = [
        whole[:-1],
        whole[:-5] + b"!",
        whole.replace(b'"user"', b'"usher"'),
        b"[]",
        whole + b"}",
        b'"messages"',
    ]
    broken += [
        whole[:-2] + b"\xff\xff}",
        whole.replace(b"Go on 4.", b"\xed\xa0\x80"),
        whole.replace(b"5m", b"\\ud800"),
    ]
    agrees("anthropic", "openai-chat", [whole, whole, *broken, whole, *broken])


def known(memory: ConversationMemory, client: str, body: bytes, scope: str = "") -> int:
    """How many messages of the request came before, as far as the memory knows."""
    found = memory.read(scope, codec(client), body)
    return found.prefix.count if found and found.prefix else 0


def prefix_of(memory: ConversationMemory, client: str, body: bytes) -> MessagePrefix:
    found = memory.read("", codec(client), body)
    assert isinstance(found, Reading)
    assert found.prefix
    return found.prefix


def test_a_conversation_is_learnt_when_it_comes_twice() -> None:
    memory, body = ConversationMemory(), written("anthropic", script("anthropic"))
    assert [known(memory, "anthropic", body) for _ in range(4)] == [0, 10, 10, 10]


def test_a_conversation_that_grows_is_known_up_to_its_last_message() -> None:
    memory, bodies = ConversationMemory(), growing("anthropic", script("anthropic"))[2:]
    assert [known(memory, "anthropic", body) for body in bodies] == [0, 2, 4, 4, 6, 6, 8, 8, 10, 10]


def test_callers_share_nothing() -> None:
    memory, body = ConversationMemory(), written("openai-chat", script("openai-chat"))
    assert [bool(known(memory, "openai-chat", body, scope)) for scope in "aabab"] == [0, 1, 0, 1, 1]


def test_many_conversations_with_the_same_instructions() -> None:
    memory, request = ConversationMemory(), script("openai-chat")
    system = (Text("You are an agent. " * 50),)
    bodies = [
        written("openai-chat", replace(request, system=system, messages=(prompt(i), *request.messages[1:])))
        for i in range(40)
    ]
    counts = [[known(memory, "openai-chat", body) for body in bodies] for _ in range(3)]
    assert counts[0][2:] == [0] * 38  # the instructions alone are not worth it
    assert counts[2] == [16] * 40


def prompt(number: int) -> Message:
    return Message("user", (Text(f"Task {number}: " + "x" * 300),))


def test_a_side_branch_does_not_displace_the_conversation() -> None:
    memory, request = ConversationMemory(), script("openai-chat")
    branch = replace(request, messages=(*request.messages[:3], Message("user", (Text("Something else"),))))
    main, side = written("openai-chat", request), written("openai-chat", branch)
    before = [known(memory, "openai-chat", main) for _ in range(3)][-1]
    for _ in range(5):
        known(memory, "openai-chat", side)
    assert known(memory, "openai-chat", main) == before > 8


def test_the_memory_is_bounded() -> None:
    memory = ConversationMemory(400_000)
    for number in range(60):
        messages = [{"role": "user", "content": f"{number} {i} " + "x" * 500} for i in range(20)]
        body = jsontext.encode({"model": "m", "messages": messages})
        counts = [known(memory, "openai-chat", body, scope=str(number % 3)) for _ in range(3)]
        assert counts == [0, 19, 19]
        assert memory.size <= 400_000
    assert 1 <= memory.conversations < 60
    assert memory.size == sum(map(total, memory._messages._callers.values()))  # pyright: ignore[reportPrivateUsage]


def test_many_conversations_of_one_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_tree, "_MOST_ALIKE", 8)
    memory = ConversationMemory()
    for number in range(40):  # the number is in no sample
        body = jsontext.encode(
            {"model": "m", "messages": [{"role": "user", "content": f"{number:04} " + "x" * 2048}] * 3}
        )
        assert [known(memory, "openai-chat", body) for _ in range(3)] == [0, 2, 2]
    assert memory.conversations <= 8
    assert memory.size == sum(map(total, memory._messages._callers.values()))  # pyright: ignore[reportPrivateUsage]


def test_results_for_many_targets_are_bounded() -> None:
    memory, body = ConversationMemory(), written("openai-chat", script("openai-chat"))
    for number in range(30):
        exchange = dragoman.Exchange("openai-chat", "gemini", memory=memory, origin=f"o{number}")
        exchange.request_bytes(body)
    assert 2 <= len(prefix_of(memory, "openai-chat", body).entries) <= 10


def test_results_for_many_lists_of_tools_are_bounded() -> None:
    """The upstream takes no dots in names, and which names it gets instead depends on all of them."""
    memory, body = ConversationMemory(), b""
    messages = [{"role": "user", "content": f"{i} " + "x" * 300} for i in range(5)]
    for number in range(30):
        function = {"name": f"server.{number}", "parameters": {"type": "object"}}
        tools = [{"type": "function", "function": function}]
        body = jsontext.encode({"model": "m", "messages": messages, "tools": tools})
        dragoman.Exchange("openai-chat", "anthropic", memory=memory).request_bytes(body)
    assert 1 <= len(prefix_of(memory, "openai-chat", body).entries) <= 10


def test_conversations_that_are_used_stay() -> None:
    memory = ConversationMemory(400_000)
    bodies = [
        jsontext.encode({"model": "m", "messages": [{"role": "user", "content": f"{n} " + "x" * 2000}] * 20})
        for n in range(30)
    ]
    first: dict[bytes, Any] = {}
    for body in bodies:
        for each in (body, body, bodies[0]):
            if known(memory, "openai-chat", each):
                found = prefix_of(memory, "openai-chat", each)
                assert first.setdefault(each, found) is found
    known(memory, "openai-chat", bodies[1])
    assert prefix_of(memory, "openai-chat", bodies[1]) is not first[bodies[1]]


def total(node: Any) -> int:
    """The sizes of all messages behind `node`."""
    return sum(child.size + total(child) for child in node.following())


def test_foreign_parts_come_back_to_their_own_protocol() -> None:
    own = Message(
        "assistant", (Foreign("anthropic", {"type": "container_upload", "file_id": "f"}), Text("There."))
    )
    request = replace(script("anthropic"), messages=(*FIRST.messages, own, Message("user", (Text("?"),))))
    agrees("anthropic", "openai-responses", growing("anthropic", request) * 2)


@pytest.mark.parametrize("upstream", MODELS)
def test_names_that_depend_on_the_other_tools(upstream: str) -> None:
    function: dict[str, Any] = {"type": "function", "parameters": {"type": "object", "properties": {}}}
    grouped = {"type": "namespace", "name": "files", "tools": [{**function, "name": "read"}]}
    items: list[Any] = [
        {"role": "user", "content": "Read. " * 60},  # longer than the beginning by which it is found
        {"type": "function_call", "call_id": "c1", "name": "read", "namespace": "files", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "text"},
        {"role": "user", "content": "Go on."},
    ]
    alone = jsontext.encode({"model": "m", "input": items, "tools": [grouped]})
    plain = jsontext.encode({"model": "m", "input": items, "tools": [{**function, "name": "read"}]})
    agrees("openai-responses", upstream, [alone, alone, alone, plain, plain, alone])


# Heads: the fields beside the messages


def heads_of(memory: ConversationMemory) -> int:
    return sum(len(each.known) for each in memory._heads.values())  # pyright: ignore[reportPrivateUsage]


def conversations(client: str, request: Request) -> list[bytes]:
    """Several conversations with the same head."""
    return [written(client, replace(request, messages=(prompt(i), *request.messages))) for i in range(4)]


@every_pair
@few
@given(request=requests())
def test_the_head_is_known_in_new_conversations(client: str, upstream: str, request: Request) -> None:
    for how in ({}, {"dialect": "hermes"}, {"strict": True}):
        agrees(client, upstream, conversations(client, request), **how)


def test_a_head_is_learnt_when_two_requests_came() -> None:
    memory, bodies = ConversationMemory(), conversations("anthropic", script("anthropic"))
    for body, count in zip(bodies, (0, 1, 1, 1), strict=True):
        dragoman.Exchange("anthropic", "openai-chat", memory=memory).request_bytes(body)
        assert heads_of(memory) == count
    reading = memory.read("", codec("anthropic"), bodies[-1])
    assert reading
    assert reading.head
    assert reading.head.made


TAIL = b'],"system":"Be brief.","model":"m","max_tokens":9}'
MIDDLES: dict[str, bytes] = {
    "another conversation": b'{"role":"user","content":"Another."}',
    "white space": b' {"role":"user","content":"a"} , {"role":"user","content":"b"} ',
    "no message": b"",
    "a comma at the end": b'{"role":"user","content":"One."},',
    "a comma at the beginning": b',{"role":"user","content":"One."}',
    "two commas": b'{"role":"user","content":"One."},,{"role":"user","content":"Two."}',
    "no comma": b'{"role":"user","content":"One."}{"role":"user","content":"Two."}',
    "an array that ends before": b'{"role":"user","content":"One."}],"top_k":3,"stop_sequences":["x"',
    "messages twice": b'{"role":"user","content":"1"}'
    + TAIL[:-1]
    + b',"messages":[{"role":"user","content":"2"}',
    "the end in a text": b'{"role":"user","content":"One.' + TAIL.replace(b'"', b'\\"') + b'"}',
    "an end that is missing": b'{"role":"user","content":"One.',
    "broken UTF-8": b'{"role":"user","content":"\xed\xa0\x80"}',
}


@pytest.mark.parametrize("middle", MIDDLES.values(), ids=MIDDLES)
def test_what_stands_between_the_ends_of_a_known_head(middle: bytes) -> None:
    begun = [
        b'{"role":"user","content":"One."}',
        b'{"role":"user","content":"One."},{"role":"user","content":"2"}',
    ]
    bodies = [
        b'{"messages":[' + each + TAIL for each in (begun[0], begun[1], begun[1], middle, middle, begun[1])
    ]
    assert heads_of(agrees("anthropic", "openai-chat", bodies)) == 1


ELSEWHERE = (b'"messages":[%b],', b'"metadata":{"messages":[%b]},')


@pytest.mark.parametrize("first", ELSEWHERE, ids=["twice", "in another field"])
def test_the_first_array_of_messages_may_not_be_that_of_the_request(first: bytes) -> None:
    said = [b'{"role":"user","content":"%b"}' % text for text in (b"One.", b"Two.", b"3.", b"Four. Five.")]
    bodies = [
        b'{"model":"m",' + first % before + b'"messages":[' + said[1] + b"]}"
        for before in (said[0], said[0], said[0], said[2], said[3], b",".join(said[:2]), b"")
        for _ in "ab"
    ]
    assert heads_of(agrees("openai-chat", "anthropic", bodies)) == 0


def test_a_head_with_tools_that_may_hold_a_key_is_not_kept() -> None:
    servers = [
        {"type": "url", "url": "https://example.com/mcp", "name": "s", "authorization_token": "secret"}
    ]
    message = {"role": "user", "content": "Hello."}
    body = jsontext.encode({"model": "m", "max_tokens": 9, "messages": [message], "mcp_servers": servers})
    assert heads_of(agrees("anthropic", "openai-responses", [body] * 5)) == 0


def test_a_client_with_something_new_in_every_head() -> None:
    memory, message = ConversationMemory(), {"role": "user", "content": "Hello."}
    for number in range(40):
        body = jsontext.encode({"model": "m", "messages": [message], "user": f"u{number}"})
        dragoman.Exchange("openai-chat", "anthropic", memory=memory).request_bytes(body)
    assert heads_of(memory) == 4  # after 2, 5, 10, 19 and 36 requests, of which the latest stay
    known_ends = [head.tail for head in memory._heads["", "openai-chat"].known]  # pyright: ignore[reportPrivateUsage]
    assert b"u35" in known_ends[0]


def test_heads_are_bounded() -> None:
    memory = ConversationMemory(400_000)
    for number in range(60):
        body = jsontext.encode({"messages": [{"role": "user", "content": "Hi."}], "model": "m" * 5_000})
        for _ in range(2):
            if reading := memory.read(str(number), codec("openai-chat"), body):
                reading.succeed(())
    assert 1 <= heads_of(memory) <= 100_000 // 10_000
