"""An agent: one definition, many runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent, ConfigError, SystemMessage, tool
from dragoman.client import Model, RunEvent, TurnStart

ANSWER = "get_weather returned: 72 in NYC"


@tool
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"72 in {city}"


def test_it_runs_its_tools_each_time(model: Model):
    agent = Agent(model, [get_weather], system="Be brief.", max_turns=3)
    first, second = agent.run("Weather in NYC?"), asyncio.run(agent.arun("Weather in NYC?"))
    assert first.content == second.content == ANSWER
    assert len(first.messages) == len(second.messages)


def test_options_of_a_run_win():
    events: list[RunEvent] = []
    agent = Agent("demo:any", [get_weather], max_turns=5)
    assert agent.run("Weather in NYC?", max_turns=1, on_event=events.append).stopped == "turns"
    assert sum(isinstance(event, TurnStart) for event in events) == 1
    assert agent.run("Weather in NYC?").stopped == "answer"


def test_a_conversation_has_its_system_text_and_tools():
    agent = Agent("demo:any", [get_weather], system="Be brief.")
    talk = agent.conversation()
    assert talk.ask("Weather in NYC?").content == ANSWER
    assert talk[0] == SystemMessage("Be brief.")
    assert len(agent.conversation()) == 1


@pytest.mark.parametrize(
    ("model", "options"), [("nobody:any", {}), ("demo:any", {"temperature": "hot"})], ids=["model", "setting"]
)
def test_a_wrong_definition_is_refused_at_once(model: str, options: dict[str, Any]):
    with pytest.raises(ConfigError):
        Agent(model, **options)
