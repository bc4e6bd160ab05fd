"""Requests to compare revisions by: sessions that grow, broken histories, generated ones, each fact varied.

cd tests && python -m laws.corpus 40      prints them as JSON, with 40 generated ones for each client
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace

from dragoman.core.model import Message, Request, Text, ToolDeclaration
from dragoman.protocols import names
from laws.strategies import requests
from laws.test_history_laws import BREAKS, FIRST, growing, script, written
from laws.test_one_fact_laws import OTHER_VALUES, SESSIONS

WAYS: list[dict[str, Any]] = [
    {},
    {"recover": True},
    {"images": "summary"},
    {"origin": "elsewhere"},
    *[{"dialect": name} for name in ("hermes", "roo-xml", "qwen3-coder")],
]


def sessions(examples: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for client in names():
        talks = [
            growing(client, each) for each in (script(client), *[make(client) for make in SESSIONS.values()])
        ]
        talks += [growing(client, request) for request in [*broken(client), *generated(examples)]]
        varied = [written(client, make(client)) for make in SESSIONS.values()] * 2
        for upstream in names():
            about = {"client": client, "upstream": upstream}
            out += [{**about, "bodies": bodies, "how": how} for bodies in talks for how in WAYS]
            for name, value in OTHER_VALUES.items():
                out.append({**about, "bodies": varied, "profile": {name: value}})
    return out


def broken(client: str) -> list[Request]:
    whole, last = script(client), Message("user", (Text("!"),))
    tools = (*FIRST.tools, ToolDeclaration("patch", "Freeform.", kind="custom"))
    made: list[Request] = []
    for messages in BREAKS.values():
        for place in (1, len(whole.messages)):
            history = (*whole.messages[:place], *messages, *whole.messages[place:], last)
            made.append(replace(whole, messages=history, tools=tools))
    return made


def generated(examples: int) -> list[Request]:
    found: list[Request] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(request=requests())
    def collect(request: Request) -> None:
        found.append(request)

    collect()
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(sessions(int(sys.argv[1]))))
