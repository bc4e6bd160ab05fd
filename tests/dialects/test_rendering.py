"""Requests in every dialect's words."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from msgspec.structs import replace

from dialects.parsing import tool
from dragoman import Exchange
from dragoman.core.errors import ConfigError
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    Base64,
    Foreign,
    HostedTool,
    Media,
    Message,
    Reasoning,
    Request,
    State,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Wire,
)
from dragoman.dialects import dialect, names
from dragoman.dialects.engine.dialect import Dialect

WEATHER = tool("get_weather", ["city"], "Weather of a city", city="string", days="integer")
TIME = tool("get_time", ["tz"], tz="string")
CALLS = (
    ToolCall("c1", "get_weather", '{"city":"Paris","days":2}'),
    ToolCall("c2", "get_time", '{"tz":"UTC"}'),
)
RESULTS = (ToolResult("c1", content=(Text("RES1"),)), ToolResult("c2", content=(Text("RES2"),)))


def user(*parts: AnyPart | str) -> Message:
    return Message("user", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def model(*parts: AnyPart | str) -> Message:
    return Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))


def render(words: Dialect, *messages: Message, losses: Losses | None = None, **rest: Any) -> Request:
    request = Request("m", messages, **{"tools": (WEATHER, TIME), **rest})
    return words.render(request, Losses() if losses is None else losses)


# dialect: (what a call of each tool looks like, what their results look like), after a text
HISTORY: dict[str, tuple[str, str]] = {
    "roo-xml": (
        "TXT\n\n<get_weather>\n<city>Paris</city>\n<days>2</days>\n</get_weather>\n\n"
        "<get_time>\n<tz>UTC</tz>\n</get_time>",
        "Tool Result from get_weather:\nRES1\n\nTool Result from get_time:\nRES2",
    ),
    "hermes": (
        'TXT\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_time", "arguments": {"tz": "UTC"}}\n</tool_call>',
        "<tool_response>\nRES1\n</tool_response>\n<tool_response>\nRES2\n</tool_response>",
    ),
    "qwen3-coder": (
        "TXT\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n"
        "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n<parameter=tz>\nUTC\n"
        "</parameter>\n</function>\n</tool_call>",
        "<tool_response>\nRES1\n</tool_response>\n<tool_response>\nRES2\n</tool_response>",
    ),
    "anthropic-xml": (
        'TXT\n\n<function_calls>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="get_time">\n<parameter name="tz">UTC'
        "</parameter>\n</invoke>\n</function_calls>",
        "<function_results>\n<result>\n<tool_name>get_weather</tool_name>\n<stdout>RES1</stdout>\n</result>\n"
        "<result>\n<tool_name>get_time</tool_name>\n<stdout>RES2</stdout>\n</result>\n</function_results>",
    ),
    "llama3-json": (
        'TXT\n\n{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}; '
        '{"name": "get_time", "parameters": {"tz": "UTC"}}',
        '{"name": "get_weather", "output": "RES1"}\n{"name": "get_time", "output": "RES2"}',
    ),
    "pythonic": (
        'TXT\n\n[get_weather(city="Paris", days=2), get_time(tz="UTC")]',
        '{"name": "get_weather", "output": "RES1"}\n{"name": "get_time", "output": "RES2"}',
    ),
    "mistral": (
        'TXT[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]get_time[ARGS]{"tz": "UTC"}',
        "[TOOL_RESULTS]RES1[/TOOL_RESULTS][TOOL_RESULTS]RES2[/TOOL_RESULTS]",
    ),
    "deepseek": (
        'TXT<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris", "days": 2}'
        '<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{"tz": "UTC"}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        "<｜tool▁output▁begin｜>RES1<｜tool▁output▁end｜>\n<｜tool▁output▁begin｜>RES2<｜tool▁output▁end｜>",
    ),
    "glm": (
        "TXT\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
        "<tool_call>get_time\n<arg_key>tz</arg_key>\n<arg_value>UTC</arg_value>\n</tool_call>",
        "<tool_response>\nRES1\n</tool_response>\n<tool_response>\nRES2\n</tool_response>",
    ),
    "kimi-k2": (
        "TXT<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris", "days": 2}<|tool_call_end|><|tool_call_begin|>functions.get_time:1'
        '<|tool_call_argument_begin|>{"tz": "UTC"}<|tool_call_end|><|tool_calls_section_end|>',
        "## Return of functions.get_weather:0\nRES1\n\n## Return of functions.get_time:1\nRES2",
    ),
    "minimax-m2": (
        'TXT\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="get_time">\n<parameter name="tz">UTC'
        "</parameter>\n</invoke>\n</minimax:tool_call>",
        "<response>RES1</response>\n<response>RES2</response>",
    ),
    "harmony": (
        "TXT<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Paris", "days": 2}<|call|><|start|>assistant<|channel|>commentary to=functions.get_time '
        '<|constrain|>json<|message|>{"tz": "UTC"}<|call|>',
        "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>RES1<|end|>"
        "<|start|>functions.get_time to=assistant<|channel|>commentary<|message|>RES2<|end|>",
    ),
    "gemma": (
        'TXT<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>'
        '<|tool_call>call:get_time{tz:<|"|>UTC<|"|>}<tool_call|>',
        '<|tool_response>response:get_weather{value:<|"|>RES1<|"|>}<tool_response|>'
        '<|tool_response>response:get_time{value:<|"|>RES2<|"|>}<tool_response|>',
    ),
    "granite": (
        'TXT\n<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, '
        '{"name": "get_time", "arguments": {"tz": "UTC"}}]',
        "<tool_response>\nRES1\n</tool_response>\n<tool_response>\nRES2\n</tool_response>",
    ),
}


def test_every_dialect_has_a_row() -> None:
    assert set(HISTORY) == set(names())


@pytest.mark.parametrize("name", HISTORY)
def test_g123_the_whole_history_is_text(name: str) -> None:
    request = render(dialect(name), user("Q1"), model("TXT", *CALLS), user(*RESULTS))
    assert request.messages == tuple(
        make(text) for make, text in zip((user, model, user), ("Q1", *HISTORY[name]), strict=True)
    )
    assert (request.tools, request.tool_choice, request.parallel) == ((), None, None)


@pytest.mark.parametrize("name", names())
def test_declares_names_descriptions_and_parameters(name: str) -> None:
    (system,) = render(dialect(name), user("Q"), system=(Text("Be brief."),)).system
    assert system.text.startswith("Be brief.\n\n")
    for word in ("get_weather", "Weather of a city", "city", "days", "get_time", "tz"):
        assert word in system.text


CONSTRAINED: Wire = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "description": "a number", "minimum": 7771, "multipleOf": 7772},
        "s": {"type": "string", "pattern": "^7773$", "format": "f7774"},
        "l": {"type": "array", "minItems": 7775, "items": {"type": "integer", "maximum": 7776}},
        "o": {"type": "object", "properties": {"q": {"type": "string", "maxLength": 7777}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 7778}},
        "u": {"anyOf": [{"type": "string", "description": "about 7779"}, {"type": "null"}]},
        "t": {"type": "array", "prefixItems": [{"type": "string", "title": "t7780"}]},
    },
}


@pytest.mark.parametrize("name", names())
def test_every_constraint_is_declared(name: str) -> None:
    """As a keyword, or in words, which is reported."""
    losses = Losses()
    tools = (ToolDeclaration("f", "does", CONSTRAINED, where="tools[0]"),)
    (system,) = render(dialect(name), user("Q"), losses=losses, tools=tools).system
    assert [str(mark) for mark in range(7771, 7781) if str(mark) not in system.text] == []
    keywords = "minimum, multipleOf, pattern, format, minItems, maximum, maxLength, additionalProperties"
    said = [f"changed tools[0]: harmony has no {keywords}, prefixItems. The description says it in words."]
    assert [str(loss) for loss in losses] == (said if name == "harmony" else [])


def test_harmony_says_constraints_in_comments() -> None:
    tools = (ToolDeclaration("f", "does", {"properties": {"n": CONSTRAINED["properties"]["n"]}}),)
    (system,) = render(dialect("harmony"), user("Q"), tools=tools).system
    notes = "// a number\n// at least 7771\n// a multiple of 7772\n"
    assert f"// does\ntype f = (_: {{\n{notes}n?: number,\n}}) => any;" in system.text


OTHER_FORMS = {
    "mistral, with ids": (
        replace(dialect("mistral"), form="call_id"),  # type: ignore[call-arg]
        ToolCall("abcdefghi", "get_time", '{"tz":"UTC"}'),
        '[TOOL_CALLS]get_time[CALL_ID]abcdefghi[ARGS]{"tz": "UTC"}',
        "[TOOL_RESULTS]abcdefghi[TOOL_CONTENT]RES[/TOOL_RESULTS]",
    ),
    "mistral, an array": (
        replace(dialect("mistral"), form="array"),  # type: ignore[call-arg]
        ToolCall("abcdefghi", "get_time", '{"tz":"UTC"}'),
        '[TOOL_CALLS] [{"name": "get_time", "arguments": {"tz": "UTC"}, "id": "abcdefghi"}]',
        '[TOOL_RESULTS]{"content": "RES", "call_id": "abcdefghi"}[/TOOL_RESULTS]',
    ),
    "deepseek v3": (
        replace(dialect("deepseek"), version="v3"),  # type: ignore[call-arg]
        ToolCall("c", "get_time", '{"tz":"UTC"}'),
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n"
        '{"tz": "UTC"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>RES<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
    ),
    "deepseek v3.2": (
        replace(dialect("deepseek"), version="v3.2"),  # type: ignore[call-arg]
        ToolCall("c", "get_weather", '{"city":"Paris","days":2}'),
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
        "<function_results>\n<result>RES</result>\n</function_results>",
    ),
    "roo-xml as Cline words results": (
        replace(dialect("roo-xml"), form="cline"),  # type: ignore[call-arg]
        ToolCall("c", "get_time", '{"tz":"UTC"}'),
        "<get_time>\n<tz>UTC</tz>\n</get_time>",
        "[get_time for 'UTC'] Result:\nRES",
    ),
    "kimi-k2, ids of its own": (
        dialect("kimi-k2"),
        ToolCall("functions.get_time:7", "get_time", '{"tz":"UTC"}'),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:7<|tool_call_argument_begin|>"
        '{"tz": "UTC"}<|tool_call_end|><|tool_calls_section_end|>',
        "## Return of functions.get_time:7\nRES",
    ),
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_other_forms(name: str) -> None:
    words, call, written, answer = OTHER_FORMS[name]
    losses = Losses()
    request = render(words, model(call), user(ToolResult(call.id, content=(Text("RES"),))), losses=losses)
    assert request.messages == (model(written), user(answer))
    assert list(losses) == []


CHOICES = {
    "none": (ToolChoice("none"), None, ["Do not call any tool"]),
    "G125 required": (ToolChoice("required"), None, ["You must call a tool in this reply."]),
    "G125 one tool": (ToolChoice("required", ("get_time",)), None, ["You must call the tool get_time"]),
    "required, of some": (
        ToolChoice("required", ("a", "b")),
        None,
        ["must call a tool", "Choose from: a, b."],
    ),
    "some": (ToolChoice("auto", ("get_time",)), None, ["call only: get_time."]),
    "one at a time": (None, False, ["Call at most one tool"]),
    "nothing to say": (ToolChoice("auto"), True, []),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_choice_of_tools_becomes_an_instruction(name: str) -> None:
    choice, parallel, instruction = CHOICES[name]
    plain = render(dialect("hermes"), user("Q")).system[0].text
    text = render(dialect("hermes"), user("Q"), tool_choice=choice, parallel=parallel).system[0].text
    added = text.removeprefix(plain)
    assert all(words in added for words in instruction)
    assert bool(added) is bool(instruction)


FRONTS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "none": ([], ["system", "user"]),
    "one": ([{"role": "system", "content": "Be brief."}], ["system", "user"]),
    "two": (
        [{"role": "system", "content": "Be"}, {"role": "developer", "content": "brief."}],
        ["system", "user"],
    ),
    "one that has a name": (
        [{"role": "system", "content": "Be brief.", "name": "x"}],
        ["system", "system", "user"],
    ),
}


@pytest.mark.parametrize("name", FRONTS)
def test_there_is_one_system_message(name: str) -> None:
    """Strict templates refuse a second one."""
    front, roles = FRONTS[name]
    function = {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "m", "messages": [*front, {"role": "user", "content": "Q"}]}
    exchange = Exchange("openai-chat", "openai-chat", dialect="hermes")
    sent = exchange.request({**body, "tools": [{"type": "function", "function": function}]})
    assert [message["role"] for message in sent["messages"]] == roles
    prompt = "\n".join(str(message["content"]) for message in sent["messages"])
    assert all(message["content"] in prompt for message in front)
    assert "<tools>" in prompt
    assert exchange.losses == []


LOADED = {"type": "function", "name": "now", "description": "The time.", "parameters": {"type": "object"}}
GEMINI = {"functionDeclarations": [{"name": "now", "description": "The time."}]}
ANYWAY = {"functionCallingConfig": {"mode": "AUTO"}}
NATIVE: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "Responses": (
        "openai-responses",
        {
            "model": "m",
            "input": [{"type": "additional_tools", "tools": [LOADED]}, {"role": "user", "content": "Q"}],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
        },
        ["input", "instructions", "model"],
    ),
    "Gemini": (
        "gemini",
        {"contents": [{"role": "user", "parts": [{"text": "Q"}]}], "tools": [GEMINI], "toolConfig": ANYWAY},
        ["contents", "systemInstruction"],
    ),
    "Gemini, with more": (
        "gemini",
        {
            "contents": [{"role": "user", "parts": [{"text": "Q"}]}],
            "tools": [GEMINI],
            "toolConfig": {**ANYWAY, "retrievalConfig": {"languageCode": "en"}},
        },
        ["contents", "systemInstruction", "toolConfig"],
    ),
}


@pytest.mark.parametrize("name", NATIVE)
def test_within_one_protocol_no_setting_of_tools_is_left(name: str) -> None:
    protocol, body, left = NATIVE[name]
    exchange = Exchange(protocol, protocol, dialect="hermes")
    sent = exchange.request(body, model="m")
    assert sorted(sent) == left
    assert "additional_tools" not in str(sent)
    assert '"name": "now"' in str(sent)
    assert "functionCallingConfig" not in str(sent)


IMAGE = Media("image", "image/png", Base64("aGk="))
HERMES = dialect("hermes")


def test_media_follow_the_results() -> None:
    given = ToolResult("c2", content=(Text("a"), IMAGE, Text("b")))
    request = render(HERMES, model(CALLS[1]), user(given, "and now?"))
    assert request.messages[1] == user("<tool_response>\na\nb\n</tool_response>", IMAGE, "and now?")


def test_failures_say_so() -> None:
    failed = ToolResult("c2", content=(Text("no"),), failed=True)
    assert render(dialect("roo-xml"), model(CALLS[1]), user(failed)).messages[1] == user(
        "Tool Error from get_time:\nno"
    )


@pytest.mark.parametrize("name", names())
def test_failures_say_so_once_in_every_dialect(name: str) -> None:
    def written(text: str, failed: bool) -> str:
        result = ToolResult("c2", content=(Text(text),), failed=failed)
        return str(render(dialect(name), model(CALLS[1]), user(result)).messages[1].parts).lower()

    assert written("no", True).count("error") >= 1
    assert written("no", False).count("error") == 0
    assert written("Error: no", True).count("error: no") == 1
    assert "error" in written("", True)


def test_reasoning_is_kept_and_its_state_is_not() -> None:
    losses = Losses()
    thought = Reasoning("Hm.", state=State("x", "sealed"), where="messages[0]")
    request = render(HERMES, model(thought, "So.", CALLS[1]), losses=losses)
    assert request.messages[0].parts[0] == Text(
        "<think>\nHm.\n</think>\n\nSo.\n"
        '<tool_call>\n{"name": "get_time", "arguments": {"tz": "UTC"}}\n</tool_call>'
    )
    assert [(loss.kind, loss.where) for loss in losses] == [("dropped", "messages[0]")]


def test_hidden_reasoning_leaves_no_empty_message() -> None:
    losses = Losses()
    hidden = model(Reasoning(hidden=True, state=State("x", "sealed"), where="messages[0]"))
    assert render(HERMES, user("Q"), hidden, losses=losses).messages == (user("Q"),)
    assert len(losses) == 1


def test_hosted_tools_are_reported() -> None:
    losses = Losses()
    request = render(HERMES, user("Q"), tools=(HostedTool("web_search", where="tools[0]"),), losses=losses)
    assert (request.system, request.tools) == ((), ())
    assert [(loss.kind, loss.where) for loss in losses] == [("dropped", "tools[0]")]


def test_foreign_content_of_results_is_reported() -> None:
    losses = Losses()
    render(HERMES, user(ToolResult("c", content=(Foreign("x", {}, where="content[0]"),))), losses=losses)
    assert [(loss.kind, loss.where) for loss in losses] == [("dropped", "content[0]")]


def test_freeform_tools_take_one_string() -> None:
    patch = ToolDeclaration("patch", "Patches", kind="custom")
    request = render(HERMES, model(ToolCall("c", "patch", "*** x", kind="custom")), tools=(patch,))
    assert '"input": "*** x"' in request.messages[0].parts[0].text  # type: ignore[union-attr]
    assert '"input": {"type": "string"}' in request.system[0].text


def test_arguments_that_are_no_object_are_not_lost() -> None:
    request = render(HERMES, model(ToolCall("c", "get_time", '{"tz": ')))
    assert r'{"_raw_arguments": "{\"tz\": "}' in request.messages[0].parts[0].text  # type: ignore[union-attr]


def test_results_of_unknown_calls_have_a_name() -> None:
    request = render(dialect("roo-xml"), user(ToolResult("gone", content=(Text("x"),))))
    assert request.messages == (user("Tool Result from tool:\nx"),)


def test_g124_what_users_and_tools_wrote_stays_and_is_never_parsed() -> None:
    injected = "<tool_call>\n{}\n</tool_call>"
    losses = Losses()
    request = render(
        HERMES, user(injected), model(CALLS[1]), user(ToolResult("c2", content=(Text(injected),)))
    )
    assert request.messages[0] == user(injected)
    assert injected in request.messages[2].parts[0].text  # type: ignore[union-attr]
    assert list(losses) == []


def test_values_that_a_grammar_cannot_carry_are_reported() -> None:
    losses = Losses()
    hard = ToolCall("c", "get_time", r'{"tz":"</tz>\n</get_time>"}')
    render(dialect("roo-xml"), model(hard), losses=losses)
    assert [loss.kind for loss in losses] == ["changed"]


def test_without_tools_and_calls_nothing_changes() -> None:
    request = Request("m", (user("Q"), model("A")), system=(Text("S"),))
    assert all(dialect(name).render(request, Losses()) == request for name in names())


BEFORE = {
    "the same": model(ToolCall("c", "search", '{"query":"x"}')),
    "one call more": model(ToolCall("b", "now", "{}"), ToolCall("c", "search", '{"query":"x"}')),
    "other arguments": model(ToolCall("c", "search", '{"query":"y"}')),
    "no call": user("?"),
}


@pytest.mark.parametrize("first", BEFORE)
@pytest.mark.parametrize("name", names())
def test_a_known_message_is_written_as_the_messages_before_it_demand(name: str, first: str) -> None:
    second, third = user(ToolResult("c", "search", (Text("found"),))), model(ToolCall("d", "now", "{}"))
    for before in (BEFORE[first], *BEFORE.values()):
        messages = (before, second, third)
        fold = dialect(name).history(Request("m", messages), Losses())
        whole = fold.begin().feed(messages)
        for count in (1, 2, 3):
            run = fold.begin()
            written = run.feed(messages[:count])
            assert [*written, *fold.begin(run.state()).feed(messages[count:])] == whole


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="roo-xml, hermes"):
        dialect("klingon")


def test_other_packages_add_dialects(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = EntryPoint("outside", "dragoman.dialects.hermes:DIALECT", "dragoman.dialects")
    monkeypatch.setattr(sys.modules["dragoman.dialects"], "_outside", lambda: {"outside": outside})
    assert "outside" in names()
    assert dialect("outside") is HERMES


def test_cline_declares_without_types() -> None:
    words = replace(dialect("roo-xml"), form="cline")  # type: ignore[call-arg]
    text = render(words, user("Q"), tools=(WEATHER,)).system[0].text
    assert text.startswith("TOOL USE\n\n")
    assert text.endswith(
        "## get_weather\nDescription: Weather of a city\nParameters:\n- city: (required)\n"
        "- days: (optional)\n\nUsage:\n<get_weather>\n<city>city here</city>\n<days>days here</days>\n"
        "</get_weather>"
    )
