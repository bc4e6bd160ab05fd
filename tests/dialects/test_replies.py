"""Replies in every dialect: one row for each way in which models write, or fail to write, a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dialects.parsing import in_short, joined, parse, tool
from dragoman import Exchange
from dragoman.core.events import Event, PartDelta, PartEnd, PartStart, ResponseEnd, ResponseStart, fold
from dragoman.core.losses import Losses
from dragoman.core.model import Reasoning, Stop, Text, ToolCall, ToolDeclaration
from dragoman.dialects import dialect

WEATHER = tool("get_weather", ["city"], city="string", days="integer")
TIME = tool("get_time", ["tz"], tz="string")
WRITE = tool("write", ["path", "content"], path="string", content="string")
NOW = ToolDeclaration("now", "", {"type": "object", "properties": {}})
TOOLS = (WEATHER, TIME, WRITE, NOW)

PARIS = ("get_weather", '{"city":"Paris","days":2}')
UTC = ("get_time", '{"tz":"UTC"}')
ZERO = ("now", "{}")

Row = tuple[str, list[Any]]

ROO: dict[str, Row] = {
    "the end of the call is missing": ("Now.\n<get_time>\n<tz>UTC</tz>\n", ["Now.", UTC]),
    "a closing tag in lower case": (
        "<get_time>\n<tz>UTC</TZ>\n</get_time>",
        ["<get_time>\n<tz>UTC</TZ>\n</get_time>"],
    ),
    "a space in tags": ("<get_time >\n<tz >UTC</tz >\n</get_time>", [UTC]),
    "in <tool_call>": ("Ok.\n<tool_call>\n<get_time>\n<tz>UTC</tz>\n</get_time>\n</tool_call>", ["Ok.", UTC]),
    "in <tool_use>": ("<tool_use><get_time><tz>UTC</tz></get_time></tool_use>", [UTC]),
    "in <tools>, which is not closed": ("<tools>\n<get_time>\n<tz>UTC</tz>\n</get_time>", [UTC]),
    "a wrapper without a call": (
        "<tool_call>\n<a>b</a>\n</tool_call>",
        ["<tool_call>\n<a>b</a>\n</tool_call>"],
    ),
    "in a code block that ends the reply": (
        "Ok.\n```xml\n<get_time>\n<tz>UTC</tz>\n</get_time>\n```\n",
        ["Ok.", UTC],
    ),
    "in a code block with text behind it": (
        "```xml\n<get_time>\n<tz>UTC</tz>\n</get_time>\n```\nThat is a call.",
        ["```xml\n<get_time>\n<tz>UTC</tz>\n</get_time>\n```\nThat is a call."],
    ),
    "the form of hermes": (
        '<tool_call>\n{"name": "get_time", "arguments": {"tz": "UTC"}}\n</tool_call>',
        [UTC],
    ),
    "the form of hermes, not closed": ('<tool_call>{"name": "get_time", "arguments": {"tz": "UTC"}}', [UTC]),
    "the form of qwen3-coder": (
        "<tool_call>\n<function=get_time>\n<parameter=tz>\nUTC\n</parameter>\n</function>\n</tool_call>",
        [UTC],
    ),
    "the form of hermes, of an undeclared tool": (
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        ['<tool_call>{"name": "rm", "arguments": {}}</tool_call>'],
    ),
    "one call": (
        "<get_weather>\n<city>Paris</city>\n<days>2</days>\n</get_weather>",
        [PARIS],
    ),
    "in one line, in the middle of one": ("So: <get_time><tz>UTC</tz></get_time> ok", ["So: ", UTC, " ok"]),
    "G121 no parameters": ("<now>\n</now>", [ZERO]),
    "G121 the closing tag inside a file": (
        "<write><path>a.md</path><content>\nsee </content> here\n</content></write>",
        [("write", '{"path":"a.md","content":"see </content> here"}')],
    ),
    "G121 a tag of HTML behind the closing tag inside a file": (
        "<write><path>a</path><content>x</content><b>y</b></content></write>",
        [("write", '{"path":"a","content":"x</content><b>y</b>"}')],
    ),
    "G118 indentation and blank lines are content": (
        "<write>\n<path>a.py</path>\n<content>\n\n    x = 1\n\n</content>\n</write>",
        [("write", '{"path":"a.py","content":"\\n    x = 1\\n"}')],
    ),
    "G119 entities stay as they are": (
        "<get_time><tz>&lt;UTC&gt; &amp; co</tz></get_time>",
        [("get_time", '{"tz":"&lt;UTC&gt; &amp; co"}')],
    ),
    "G116 a tag in prose": ("Use the <get_time> tag.", ["Use the <get_time> tag."]),
    "G116 an empty pair of tags in prose": (
        "Use <get_time></get_time>.",
        ["Use <get_time></get_time>."],
    ),
    "G116 in a code block": (
        "```xml\n<get_time>\n<tz>UTC</tz>\n</get_time>\n```\nIs it?",
        ["```xml\n<get_time>\n<tz>UTC</tz>\n</get_time>\n```\nIs it?"],
    ),
    "behind a code block": (
        "```\nx\n```\n<get_time>\n<tz>UTC</tz>\n</get_time>",
        ["```\nx\n```", UTC],
    ),
    "G116 in inline code": (
        "Write `<get_time><tz>UTC</tz></get_time>` then.",
        ["Write `<get_time><tz>UTC</tz></get_time>` then."],
    ),
    "a stray backtick hides nothing on the next line": (
        "A ` here.\n<get_time>\n<tz>UTC</tz>\n</get_time>",
        ["A ` here.", UTC],
    ),
    "an unknown parameter is a string": (
        "<now>\n<zone>12</zone>\n</now>",
        [("now", '{"zone":"12"}')],
    ),
    "an undeclared tool": ("<ls>\n<path>/</path>\n</ls>", [("ls", '{"path":"/"}')]),
    "an undeclared tool and more text": (
        "<note>\n<to>Ann</to>\n</note>\nThat is XML.",
        ["<note>\n<to>Ann</to>\n</note>\nThat is XML."],
    ),
    "an undeclared tag within a line": ("A <ls>\n<path>/</path>\n</ls>", ["A <ls>\n<path>/</path>\n</ls>"]),
    "HTML": ("<div>\n<p>hi</p>\n</div>", ["<div>\n<p>hi</p>\n</div>"]),
    "a list in HTML": ("<ul>\n<li>a</li>\n<li>b</li>\n</ul>", ["<ul>\n<li>a</li>\n<li>b</li>\n</ul>"]),
    "nested XML": ("<a1>\n<b1>\n<c1>x</c1>", ["<a1>\n<b1>\n<c1>x</c1>"]),
    "a broken call, then a good one": (
        "<get_time>\n<tz>UTC\n</get_time>\n\n<get_time>\n<tz>UTC</tz>\n</get_time>",
        ["<get_time>\n<tz>UTC\n</get_time>", UTC],
    ),
    "cut inside a call": ("On it.\n<get_time>\n<tz>UT", ["On it.\n<get_time>\n<tz>UT"]),
    "cut inside a tag": ("On it.\n<get_ti", ["On it.\n<get_ti"]),
}

NOW_CALL = '<tool_call>{"name": "now"}</tool_call>'
HERMES: dict[str, Row] = {
    "two calls": (
        'TXT\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_time", "arguments": {"tz": "UTC"}}\n</tool_call>',
        ["TXT", PARIS, UTC],
    ),
    "without white space": ('<tool_call>{"name":"get_time","arguments":{"tz":"UTC"}}</tool_call>', [UTC]),
    "parameters instead of arguments": (
        '<tool_call>{"name": "get_time", "parameters": {"tz": "UTC"}}</tool_call>',
        [UTC],
    ),
    "arguments inside a string": (
        r'<tool_call>{"name": "get_time", "arguments": "{\"tz\": \"UTC\"}"}</tool_call>',
        [UTC],
    ),
    "G121 no arguments": ('<tool_call>{"name": "now"}</tool_call>', [ZERO]),
    "G121 the end tag is missing": ('<tool_call>\n{"name": "now", "arguments": {}}\n', [ZERO]),
    "G121 the end tag is cut": ('<tool_call>\n{"name": "now", "arguments": {}}\n</tool_c', [ZERO]),
    "text behind a call": ('<tool_call>{"name": "now"}</tool_call>\nDone.', [ZERO, "\nDone."]),
    "markers inside a string": (
        '<tool_call>{"name": "get_time", "arguments": {"tz": "</tool_call> {\\"}"}}</tool_call>',
        [("get_time", '{"tz":"</tool_call> {\\"}"}')],
    ),
    "numbers as they were written": (
        '<tool_call>{"name": "f", "arguments": {"a": 1.10, "b": 1e400, "c": 123456789012345678}}</tool_call>',
        [("f", '{"a":1.10,"b":1e400,"c":123456789012345678}')],
    ),
    "a raw line break in a string": (
        '<tool_call>{"name": "get_time", "arguments": {"tz": "a\nb"}}</tool_call>',
        [("get_time", '{"tz":"a\\nb"}')],
    ),
    "an undeclared tool": ('<tool_call>{"name": "ls", "arguments": {}}</tool_call>', [("ls", "{}")]),
    "G116 the tag in prose": ("The <tool_call> tag.", ["The <tool_call> tag."]),
    "G116 the tag in prose, then a call": (
        'A <tool_call> is:\n<tool_call>{"name": "now"}</tool_call>',
        ["A <tool_call> is:", ZERO],
    ),
    "G116 half a tag at the end": ("a <tool_", ["a <tool_"]),
    "broken JSON": ('<tool_call>{"name": "now",,}</tool_call>', ['<tool_call>{"name": "now",,}</tool_call>']),
    "no name": ('<tool_call>{"tool": 1}</tool_call>', ['<tool_call>{"tool": 1}</tool_call>']),
    "cut inside the JSON": ('<tool_call>{"name": "now", "arg', ['<tool_call>{"name": "now", "arg']),
    "an open string, then a good call": (
        '<tool_call>{"name": "now}</tool_call>\n<tool_call>{"name": "now"}</tool_call>',
        ['<tool_call>{"name": "now}</tool_call>', ZERO],
    ),
    "reasoning": (
        '<think>\nHm.\n</think>\n\nWell.\n<tool_call>{"name": "now"}</tool_call>',
        [("think", "Hm."), "Well.", ZERO],
    ),
    "reasoning that is cut": ("<think>\nHm. It", [("think", "Hm. It")]),
    "an empty block of reasoning": ("<think>\n\n</think>\n\nHi", ["Hi"]),
    "G122 a call in reasoning that never closes": (
        '<think>\nI call.\n<tool_call>{"name": "now"}</tool_call>',
        [("think", "I call."), ZERO],
    ),
    "G122 a call in reasoning that never closes, and text behind it": (
        '<think>I call. <tool_call>{"name": "now"}</tool_call>\nOk.',
        [("think", "I call. "), ZERO, "\nOk."],
    ),
    "a call that was only thought of": (
        '<think>Or <tool_call>{"name": "now"}</tool_call>? No.</think>Hello.',
        [("think", 'Or <tool_call>{"name": "now"}</tool_call>? No.'), "Hello."],
    ),
    "a marker that was only thought of": (
        "<think>Use <tool_call>?</think>Hello.",
        [("think", "Use <tool_call>?"), "Hello."],
    ),
    "only the end of reasoning: the text before it went out already": ("a</think>b", ["a\n\nb"]),
    "only the end of reasoning, at the start": ("</think>b", ["b"]),
    "only the end of reasoning, in code": ("Write `</think>` at the end.", ["Write `</think>` at the end."]),
    "a call before a bare end of reasoning": (
        f"I could {NOW_CALL} but no.</think>\nAll fine.",
        ["I could ", ("think", f"{NOW_CALL} but no."), "All fine."],
    ),
    "a call before it and one behind it": (
        f"Maybe {NOW_CALL} hm.</think>\n\n{NOW_CALL}",
        ["Maybe ", ("think", f"{NOW_CALL} hm."), ZERO],
    ),
    "white space alone": (" \n ", [" \n "]),
}

QWEN: dict[str, Row] = {
    "two calls": (
        "TXT\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n"
        "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n<parameter=tz>\nUTC\n"
        "</parameter>\n</function>\n</tool_call>",
        ["TXT", PARIS, UTC],
    ),
    "G121 in one line, with spaces in tags": (
        "<tool_call><function = get_time ><parameter = tz >UTC</parameter></function></tool_call>",
        [UTC],
    ),
    "G121 no wrapper": ("<function=get_time>\n<parameter=tz>\nUTC\n</parameter>\n</function>", [UTC]),
    "G121 no parameters": ("<tool_call>\n<function=now>\n</function>\n</tool_call>", [ZERO]),
    "G121 a closing tag is missing": (
        "<tool_call>\n<function=get_weather>\n<parameter=city>Paris\n<parameter=days>2</parameter>\n"
        "</function>\n</tool_call>",
        [PARIS],
    ),
    "G121 the last closing tag is missing": (
        "<tool_call>\n<function=get_time>\n<parameter=tz>\nUTC\n</function>\n</tool_call>",
        [UTC],
    ),
    "G121 the wrapper is not closed": (
        "<tool_call>\n<function=get_time>\n<parameter=tz>\nUTC\n</parameter>\n</function>",
        [UTC],
    ),
    "G118 only one newline on each side is framing": (
        "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n\n  x\n\n"
        "</parameter>\n</function>",
        [("write", '{"path":"a","content":"\\n  x\\n"}')],
    ),
    "G121 a closing tag inside a value": (
        "<function=get_time>\n<parameter=tz>\na </parameter> b\n</parameter>\n</function>",
        [("get_time", '{"tz":"a </parameter> b"}')],
    ),
    "a parameter of another tool inside a value": (
        "<function=get_time>\n<parameter=tz>\n<parameter=x> y\n</parameter>\n</function>",
        [("get_time", '{"tz":"<parameter=x> y"}')],
    ),
    "cut inside a value": (
        "<function=get_time>\n<parameter=tz>\nUT",
        ["<function=get_time>\n<parameter=tz>\nUT"],
    ),
}

ANTHROPIC: dict[str, Row] = {
    "two calls": (
        'TXT\n\n<function_calls>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="get_time">\n<parameter name="tz">UTC'
        "</parameter>\n</invoke>\n</function_calls>",
        ["TXT", PARIS, UTC],
    ),
    "a namespace": (
        '<x:function_calls>\n<x:invoke name="get_time">\n<x:parameter name="tz">UTC</x:parameter>\n'
        "</x:invoke>\n</x:function_calls>",
        [UTC],
    ),
    "G114 an invocation alone": (
        '<invoke name="get_time"><parameter name="tz">UTC</parameter></invoke>',
        [UTC],
    ),
    "the older form": (
        "<function_calls>\n<invoke>\n<tool_name>get_weather</tool_name>\n<parameters>\n<city>Paris</city>\n"
        "<days>2</days>\n</parameters>\n</invoke>\n</function_calls>",
        [PARIS],
    ),
    "the block is not closed": (
        '<function_calls>\n<invoke name="now">\n</invoke>\n',
        [ZERO],
    ),
    "white space is part of a value": (
        '<invoke name="get_time"><parameter name="tz">\n UTC\n</parameter></invoke>',
        [("get_time", '{"tz":"\\n UTC\\n"}')],
    ),
    "no quotes, single quotes": (
        "<invoke name=get_time><parameter name='tz'>UTC</parameter></invoke>",
        [UTC],
    ),
    "closed at once": ('<function_calls><invoke name="now"/></function_calls>', [ZERO]),
    "parameters as JSON": ('<invoke name="get_time">{"tz": "UTC"}</invoke>', [UTC]),
    "the second call is broken": (
        '<function_calls>\n<invoke name="now">\n</invoke>\n<invoke name="get_time">\n<parameter name="tz">U',
        [ZERO, '\n<invoke name="get_time">\n<parameter name="tz">U'],
    ),
}

LLAMA: dict[str, Row] = {
    "one call": ('{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}', [PARIS]),
    "behind the tag": ('Hm. <|python_tag|>{"name": "get_time", "parameters": {"tz": "UTC"}}', ["Hm. ", UTC]),
    "several": (
        '{"name": "get_time", "parameters": {"tz": "UTC"}}; {"name": "now", "parameters": {}}',
        [UTC, ZERO],
    ),
    "as Python prints it": ("{'name': 'get_time', 'parameters': {'tz': 'UTC'}}", [UTC]),
    "in a code block that is the whole reply": (
        '```json\n{"name": "get_time", "parameters": {"tz": "UTC"}}\n```',
        [UTC],
    ),
    "in a code block of a longer reply": (
        '```json\n{"name": "now", "parameters": {}}\n```\nSee?',
        ['```json\n{"name": "now", "parameters": {}}\n```\nSee?'],
    ),
    "a built-in tool": ('<|python_tag|>brave_search.call(query="x")', [("brave_search", '{"query":"x"}')]),
    "on a line of its own": ('Sure.\n{"name": "now", "parameters": {}}', ["Sure.", ZERO]),
    "within a line": ('As {"name": "now", "parameters": {}}.', ['As {"name": "now", "parameters": {}}.']),
    "other JSON": ('{"answer": 42}', ['{"answer": 42}']),
    "a person": ('{"name": "Ann", "age": 3}', ['{"name": "Ann", "age": 3}']),
    "undeclared, in the middle": (
        'Hm\n{"name": "x", "parameters": {}}',
        ['Hm\n{"name": "x", "parameters": {}}'],
    ),
    "undeclared, as the reply": ('{"name": "x", "parameters": {}}', [("x", "{}")]),
}

PYTHONIC: dict[str, Row] = {
    "two calls": ("[get_weather(city=\"Paris\", days=2), get_time(tz='UTC')]", [PARIS, UTC]),
    "no arguments": ("[now()]", [ZERO]),
    "literals of Python and JSON": (
        "[f(a=True, b=false, c=None, d=null, e=-1.50, g={'k': [1, (2,)]}, h={'x', 'y'})]",
        [("f", '{"a":true,"b":false,"c":null,"d":null,"e":-1.50,"g":{"k":[1,[2]]},"h":["x","y"]}')],
    ),
    "escapes": (
        r"[get_time(tz='it\'s \d \n\u00e9')]",
        [("get_time", '{"tz":"it\'s \\\\d \\né"}')],
    ),
    "brackets inside a string": ("[get_time(tz='[)]')]", [("get_time", '{"tz":"[)]"}')]),
    "wrapped": ("<|python_start|>[now()]<|python_end|>", [ZERO]),
    "wrapped, one a line": ('<function_calls>now()\nget_time(tz="UTC")</function_calls>', [ZERO, UTC]),
    "behind text": ("Let me see: [get_time(tz='UTC')]", ["Let me see: ", UTC]),
    "the bracket was missing at the end": ("[now()", [ZERO]),
    "undeclared, in the middle": ("See [f(x=1)] there", ["See [f(x=1)] there"]),
    "a list in prose": ("I like [tea, coffee].", ["I like [tea, coffee]."]),
    "a link": ("[now](https://x.y)", ["[now](https://x.y)"]),
    "code": ("[now() for x in y]", ["[now() for x in y]"]),
    "a code block that is the whole reply": ('```tool_code\nget_time(tz="UTC")\n```', [UTC]),
    "positional": ("[get_time('UTC')]", ["[get_time('UTC')]"]),
}

MISTRAL: dict[str, Row] = {
    "two calls": (
        'TXT[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]get_time[ARGS]{"tz": "UTC"}',
        ["TXT", PARIS, UTC],
    ),
    "with ids": ("[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}", [ZERO]),
    "an array": (
        '[TOOL_CALLS] [{"name": "get_time", "arguments": {"tz": "UTC"}, "id": "abcdefghi"}, {"name": "now"}]',
        [UTC, ZERO],
    ),
    "the marker of arguments is lost": ('[TOOL_CALLS]get_time{"tz": "UTC"}', [UTC]),
    "reasoning": (
        "[THINK]Hm.[/THINK]Hello[THINK]More.[/THINK]",
        [("think", "Hm."), "Hello", ("think", "More.")],
    ),
    "the marker in prose": ("A [TOOL_CALLS] marker.", ["A [TOOL_CALLS] marker."]),
}

DEEPSEEK: dict[str, Row] = {
    "stray markers": ("Hello.<｜tool▁calls▁end｜>", ["Hello."]),
    "V3.1": (
        'TXT<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris", "days": 2}'
        '<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{"tz": "UTC"}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        ["TXT", PARIS, UTC],
    ),
    "V3, with its fence": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris", "days": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>'
        'get_time\n```json\n{"tz": "UTC"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        [PARIS, UTC],
    ),
    "V3.2": (
        'TXT\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
        ["TXT", PARIS],
    ),
    "V3.2, the value says what it is": (
        '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="true">1'
        '</｜DSML｜parameter><｜DSML｜parameter name="b" string="false">[1]</｜DSML｜parameter>'
        "</｜DSML｜invoke></｜DSML｜function_calls>",
        [("f", '{"a":"1","b":[1]}')],
    ),
    "V4": (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
        [ZERO],
    ),
    "not closed": ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}", [ZERO]),
}

GLM: dict[str, Row] = {
    "a value without its closing tag ends at the next key": (
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris<arg_key>days</arg_key>\n"
        "<arg_value>2</arg_value></tool_call>",
        [PARIS],
    ),
    "the marker of the next turn": ("Hello.<|observation|>", ["Hello."]),
    "two calls": (
        "TXT\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>get_time<arg_key>tz</arg_key>"
        "<arg_value>UTC</arg_value></tool_call>",
        ["TXT", PARIS, UTC],
    ),
    "no arguments": ("<tool_call>now</tool_call>", [ZERO]),
    "G120 a string that looks like a number": (
        "<tool_call>get_time<arg_key>tz</arg_key><arg_value>123</arg_value></tool_call>",
        [("get_time", '{"tz":"123"}')],
    ),
    "newlines printed as escapes": (
        r"<tool_call>get_time\n<arg_key>tz</arg_key>\n<arg_value>UTC</arg_value>\n</tool_call>",
        [UTC],
    ),
}

KIMI: dict[str, Row] = {
    "stray markers": ("Hello.<|tool_calls_section_end|>", ["Hello."]),
    "a section without calls": ("Hi.<|tool_calls_section_begin|><|tool_calls_section_end|>", ["Hi."]),
    "two calls": (
        "TXT<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris", "days": 2}<|tool_call_end|><|tool_call_begin|>functions.get_time:1'
        '<|tool_call_argument_begin|>{"tz": "UTC"}<|tool_call_end|><|tool_calls_section_end|>',
        ["TXT", PARIS, UTC],
    ),
    "no prefix": (
        "<|tool_calls_section_begin|><|tool_call_begin|>now:3<|tool_call_argument_begin|>{}<|tool_call_end|>",
        [ZERO],
    ),
    "only a number": (
        '<|tool_call_begin|>3<|tool_call_argument_begin|>{"tz": "UTC"}<|tool_call_end|>',
        [UTC],
    ),
}

MINIMAX: dict[str, Row] = {
    "two calls": (
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="get_time">\n<parameter name="tz">UTC'
        "</parameter>\n</invoke>\n</minimax:tool_call>",
        [PARIS, UTC],
    ),
    "a closing tag is missing": (
        '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris<parameter name="days">2'
        "</parameter></invoke></minimax:tool_call>",
        [PARIS],
    ),
}

HARMONY: dict[str, Row] = {
    "reasoning, preamble, call": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look."
        "<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city":"Paris","days":2}<|call|>',
        [("think", "Hm."), "I look.", PARIS],
    ),
    "the recipient in the role": (
        '<|start|>assistant to=functions.get_time<|channel|>commentary json<|message|>{"tz": "UTC"}<|call|>',
        [UTC],
    ),
    "no arguments": ("<|channel|>commentary to=functions.now<|message|><|call|>", [ZERO]),
    "an answer": ("<|channel|>final<|message|>Hello.<|return|>", ["Hello."]),
    "an answer that is cut": ("<|channel|>final<|message|>Hel<|en", ["Hel<|en"]),
    "text without a channel": ("Hello.", ["Hello."]),
}

GEMMA: dict[str, Row] = {
    "markers behind a call": (
        '<|tool_call>call:get_time{tz:<|"|>UTC<|"|>}<tool_call|><tool_call|><|tool_response>',
        [UTC],
    ),
    "two calls": (
        'TXT<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>'
        '<|tool_call>call:get_time{tz:<|"|>UTC<|"|>}<tool_call|>',
        ["TXT", PARIS, UTC],
    ),
    "nested": (
        '<|tool_call>call:f{a:{b:[1,true,null,<|"|>x}<|"|>]},c:[]}<tool_call|>',
        [("f", '{"a":{"b":[1,true,null,"x}"]},"c":[]}')],
    ),
    "markers inside a string": (
        '<|tool_call>call:get_time{tz:<|"|><tool_call|>,{<|"|>}<tool_call|>',
        [("get_time", '{"tz":"<tool_call|>,{"}')],
    ),
    "FunctionGemma": (
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:<escape>2<escape>}<end_function_call>",
        [PARIS],
    ),
    "reasoning": ("<|channel>thought\nHm.\n<channel|>Hello.", [("think", "Hm."), "Hello."]),
}

GRANITE: dict[str, Row] = {
    "an array": (
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "now"}]',
        [PARIS, ZERO],
    ),
    "with the other marker": ('<tool_call> [{"name": "get_time", "arguments": {"tz": "UTC"}}]', [UTC]),
    "20B": (
        '<function_call> {"name": "get_time", "arguments": {"tz": "UTC"}}\n<function_call> {"name": "now"}',
        [UTC, ZERO],
    ),
}

CASES = {
    f"{name}: {case}": (name, row)
    for name, rows in {
        "roo-xml": ROO,
        "hermes": HERMES,
        "qwen3-coder": QWEN,
        "anthropic-xml": ANTHROPIC,
        "llama3-json": LLAMA,
        "pythonic": PYTHONIC,
        "mistral": MISTRAL,
        "deepseek": DEEPSEEK,
        "glm": GLM,
        "kimi-k2": KIMI,
        "minimax-m2": MINIMAX,
        "harmony": HARMONY,
        "gemma": GEMMA,
        "granite": GRANITE,
    }.items()
    for case, row in rows.items()
}


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("case", CASES)
def test_reply(case: str, size: int) -> None:
    name, (text, expected) = CASES[case]
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    parts, stop, _ = parse(replace(dialect(name), only_first=False), TOOLS, *pieces)
    assert in_short(*parts) == expected
    assert stop == (
        "tool_calls" if any(isinstance(it, tuple) and it[0] != "think" for it in expected) else "end"
    )


# Text that only the parser's options or the reason to stop tell apart


def test_the_template_opens_the_reasoning() -> None:
    opened = replace(dialect("minimax-m2"), opened=True)
    parts, _, _ = parse(opened, TOOLS, "Hm.\n</thi", "nk>\n\nHello.")
    assert in_short(*parts) == [("think", "Hm."), "Hello."]


def test_a_cut_reply_keeps_its_reason() -> None:
    parts, stop, losses = parse(dialect("hermes"), TOOLS, '<tool_call>{"name": "wri', stop="length")
    assert (in_short(*parts), stop) == (['<tool_call>{"name": "wri'], "length")
    assert [loss.kind for loss in losses] == ["changed"]


def test_ids_in_the_text_are_kept() -> None:
    text = "[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}"
    assert parse(dialect("mistral"), TOOLS, text)[0][0].id == "abcdefghi"  # type: ignore[union-attr]
    text = "<|tool_call_begin|>functions.now:7<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert parse(dialect("kimi-k2"), TOOLS, text)[0][0].id == "functions.now:7"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("The <tool_call> tag.", False),
        ('<tool_call>{"name": "now", "arguments": {', True),
        ('<tool_call>{"name": "now"}</tool_call>', False),
    ],
)
def test_only_broken_calls_are_reported(text: str, reported: bool) -> None:
    assert bool(parse(dialect("hermes"), TOOLS, text)[2]) is reported


def test_a_parameter_given_twice_is_reported() -> None:
    text = "<get_time>\n<tz>a</tz>\n<tz>b</tz>\n</get_time>"
    parts, _, losses = parse(dialect("roo-xml"), TOOLS, text)
    assert in_short(*parts) == [("get_time", '{"tz":"b"}')]
    assert [loss.kind for loss in losses] == ["changed"]


def test_a_reply_that_begins_inside_its_reasoning_is_reported() -> None:
    _, _, losses = parse(dialect("hermes"), TOOLS, f"Or {NOW_CALL}?</think>\nNo.")
    assert [loss.code for loss in losses] == ["dialect.call.changed"]
    assert "</think> came without <think>" in losses[0].why


# The reasoning of a reply, its text, its stop, and what becomes of them
IN_REASONING: dict[str, tuple[str, str, str, list[Any]]] = {
    "the call is all there is": (f"I use {NOW_CALL}", "", "end", [("think", "I use "), ZERO]),
    "several, and white space": (
        f"Two:\n{NOW_CALL}\n{NOW_CALL}\n", "", "end", [("think", "Two:"), ZERO, ZERO],
    ),
    "text behind the call": (f"So {NOW_CALL}\nOk.", "", "end", [("think", "So "), ZERO, "\nOk."]),
    "the end of the call is missing": (
        'So <tool_call>{"name": "now"}', "", "end", [("think", "So "), ZERO],
    ),
    "it was closed": (f"I use {NOW_CALL}?  ", "No.", "end", [("think", f"I use {NOW_CALL}?  "), "No."]),
    "the text makes a call": (f"I use {NOW_CALL}", NOW_CALL, "end", [("think", f"I use {NOW_CALL}"), ZERO]),
    "the reply is cut": (f"I use {NOW_CALL}", "", "length", [("think", f"I use {NOW_CALL}")]),
    "a broken call": ("So <tool_call>{now", "", "end", [("think", "So <tool_call>{now")]),
    "a call in code": (f"So `{NOW_CALL}`.\n", "", "end", [("think", f"So `{NOW_CALL}`.\n")]),
    "white space alone": ("So  \n\n", "", "end", [("think", "So  \n\n")]),
}  # fmt: skip


@pytest.mark.parametrize("cut", [1, 3, 1000])
@pytest.mark.parametrize("row", IN_REASONING.values(), ids=IN_REASONING)
def test_g122_calls_in_native_reasoning(row: tuple[str, str, str, list[Any]], cut: int) -> None:
    reasoning, text, reason, expected = row
    given: list[Event] = [ResponseStart("r", "m"), PartStart(0, Reasoning())]
    given += [PartDelta(0, reasoning[at : at + cut]) for at in range(0, len(reasoning), cut)]
    given += [PartEnd(0), PartStart(1, Text())]
    given += [*([PartDelta(1, text)] if text else []), PartEnd(1), ResponseEnd(Stop(reason))]  # type: ignore[arg-type]
    stage = dialect("hermes").parser(TOOLS, Losses())
    response = fold([out for event in given for out in stage.feed(event)])
    assert [item for item in in_short(*response.parts) if item] == expected
    assert response.stop.reason == ("tool_calls" if ZERO in expected else reason)


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder"])
@pytest.mark.parametrize("cut", [False, True], ids=["ends", "fails"])
def test_g122_over_chat(name: str, cut: bool) -> None:
    call = {"hermes": NOW_CALL, "qwen3-coder": "<tool_call>\n<function=now>\n</function>\n</tool_call>"}[name]
    body: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    body["tools"] = [{"name": "now", "input_schema": {"type": "object"}}]
    exchange = Exchange("anthropic", "openai-chat", name)
    exchange.request(body)
    chunks = [{"choices": [{"delta": {"reasoning_content": piece}}]} for piece in ("Hm.", *call)]
    chunks += [] if cut else [{"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    stream = exchange.stream()
    sent = b"".join(stream.feed(f"data: {json.dumps(chunk)}\n\n".encode()) for chunk in chunks)
    sent += (b"" if cut else stream.feed(b"data: [DONE]\n\n")) + stream.close()
    assert (b'"type":"tool_use"' in sent) is not cut
    assert (b"error" in sent) is cut
    assert b'"thinking":"Hm."' in sent


REASONED = [ResponseStart("r", "m"), PartStart(0, Reasoning()), PartDelta(0, f"I use {NOW_CALL}"), PartEnd(0)]


def test_a_call_in_native_reasoning_that_only_text_follows_is_reported() -> None:
    losses = Losses()
    stage = dialect("hermes").parser(TOOLS, losses)
    text = [PartStart(1, Text()), PartDelta(1, "No."), PartEnd(1)]
    given: list[Event] = [*REASONED, *text, ResponseEnd(Stop("end"))]
    assert joined([out for event in given for out in stage.feed(event)]) == given
    assert [(loss.code, loss.where) for loss in losses] == [("reasoning.call.dropped", "reasoning")]


def test_a_call_in_native_reasoning_is_no_loss_where_the_reply_makes_one() -> None:
    losses = Losses()
    stage = dialect("hermes").parser(TOOLS, losses)
    text = [PartStart(1, Text()), PartDelta(1, NOW_CALL), PartEnd(1)]
    out = [out for event in [*REASONED, *text, ResponseEnd(Stop("end"))] for out in stage.feed(event)]
    assert [
        event.part.name for event in out if isinstance(event, PartStart) and isinstance(event.part, ToolCall)
    ] == ["now"]
    assert not list(losses)


REPAIRED = {
    "the end is missing": ("<get_time>\n<tz>UTC</tz>", "</get_time> was missing at the end"),
    "a space": ("<get_time >\n<tz>UTC</tz>\n</get_time>", "<get_time > was read as <get_time>"),
    "a wrapper": (
        "<tools><get_time><tz>UTC</tz></get_time></tools>",
        "A call was in <tools>. It was read all the same.",
    ),
    "a code block": (
        "```\n<get_time><tz>UTC</tz></get_time>\n```",
        "A call was in a code block. It was read all the same.",
    ),
    "another form": (NOW_CALL, "A call of now was written in the form of hermes. It was read all the same."),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_each_repair_is_reported(name: str) -> None:
    text, why = REPAIRED[name]
    _, stop, losses = parse(dialect("roo-xml"), TOOLS, text)
    assert stop == "tool_calls"
    assert [loss.code for loss in losses] == ["dialect.call.changed"]
    assert why in losses[0].why


def test_a_misspelled_closing_tag_is_repaired() -> None:
    tools = (tool("read", ["filePath"], filePath="string"),)
    for closes in ("</filepath>", "</file_path>", "</filePath >"):
        parts, _, losses = parse(dialect("roo-xml"), tools, f"<read>\n<filePath>a{closes}\n</read>")
        assert in_short(*parts) == [("read", '{"filePath":"a"}')]
        assert f"{closes} was read as </filePath>" in losses[0].why


@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_a_cut_reply_makes_no_call_of_a_call_without_its_end(stop: Any) -> None:
    text = "Now.\n<get_time>\n<tz>UTC</tz>"
    parts, reason, _ = parse(dialect("roo-xml"), TOOLS, text, stop=stop)
    assert (in_short(*parts), reason) == ([text], stop)


def test_a_call_without_its_end_needs_all_required_parameters() -> None:
    tools = (tool("write", ["path", "content"], path="string", content="string"),)
    text = "<write>\n<path>a</path>\n"
    parts, _, _ = parse(dialect("roo-xml"), tools, text)
    assert in_short(*parts) == [text]
