"""A conversation that is kept between calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from client.upstreams import UPSTREAMS, model_named
from dragoman import (
    ConfigError,
    Conversation,
    Provider,
    SystemMessage,
    ToolMessage,
    UpstreamError,
    UserMessage,
    generate,
    tool,
)

DEMO = "demo:demo"


@tool
def get_weather(city: str) -> str:
    return f"72 in {city}"


def test_questions_add_up():
    talk = Conversation(model=DEMO, tools=[get_weather], system="Be brief.")
    assert talk.ask("Weather in NYC").content == "get_weather returned: 72 in NYC"
    assert talk.ask("Hello").content == talk.content == "You said: Hello"
    assert [message.role for message in talk] == ["system", *["user", "assistant"] * 3]
    assert len(talk) == 7
    assert isinstance(talk[0], SystemMessage)
    assert talk.usage.output > 0
    assert repr(talk) == "Conversation(7 messages, model='demo:demo')"


def test_async():
    talk = Conversation(model=DEMO)
    asyncio.run(talk.aask("Hi"))
    assert talk.content == "You said: Hi"


def test_it_is_a_list_of_messages():
    talk = Conversation([UserMessage("Weather in NYC")])
    assert generate(talk, DEMO, tools=[get_weather]).tool_calls


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_it_goes_on_with_another_model(address: str, upstream: str):
    talk = Conversation(model=DEMO, tools=[get_weather])
    talk.ask("Weather in NYC")
    done = talk.ask("And the weather in Rome?", model_named(address, upstream))
    assert done.content == "get_weather returned: 72 in Rome"
    assert talk.model == DEMO


def test_a_question_that_fails_changes_nothing():
    talk = Conversation(model=DEMO)
    talk.ask("Hi")
    with pytest.raises(UpstreamError):
        talk.ask("Hi [[fault: 400]]")
    assert len(talk) == 2


def test_forks_are_independent():
    talk = Conversation(model=DEMO, tools=[get_weather])
    talk.ask("One")
    other, start = talk.fork(), talk.fork(before=0)
    other.ask("Two")
    assert (len(talk), len(other), len(start)) == (2, 4, 0)
    assert start.ask("Weather in NYC").content == "get_weather returned: 72 in NYC"


def test_an_edit_drops_what_came_after():
    talk = Conversation(model=DEMO, system="Be brief.")
    talk.ask("One")
    talk.ask("Two")
    talk.edit(1, "Three")
    assert talk.messages == [SystemMessage("Be brief."), UserMessage("Three")]
    talk.edit(-1, UserMessage("Four"))
    assert talk.messages[1:] == [UserMessage("Four")]
    talk.ask([])
    with pytest.raises(ConfigError, match="edited as text"):
        talk.edit(-1, "I said something else")


def test_undo_returns_the_prompt():
    talk = Conversation(model=DEMO, tools=[get_weather])
    talk.ask("Hi")
    talk.ask("Weather in NYC")
    assert any(isinstance(message, ToolMessage) for message in talk)
    prompt = talk.undo()
    assert prompt == UserMessage("Weather in NYC")
    assert len(talk) == 2
    talk.undo()
    with pytest.raises(ConfigError, match="no prompt"):
        talk.undo()


def test_saved_and_loaded(tmp_path: Path):
    talk = Conversation(model=DEMO, tools=[get_weather], system="Be brief.")
    talk.ask("Weather in NYC")
    talk.save(tmp_path / "talk.json")
    talk.save(tmp_path / "talk.json")
    loaded = Conversation.load(tmp_path / "talk.json", tools=[get_weather])
    assert loaded.messages == talk.messages
    assert loaded.ask("And the weather in Rome?").content == "get_weather returned: 72 in Rome"
    assert [path.name for path in tmp_path.iterdir()] == ["talk.json"]


def test_without_a_model():
    with pytest.raises(ConfigError, match=r"Conversation\(model="):
        Conversation().ask("Hi")


def test_a_conversation_goes_on_only_where_it_was(tmp_path: Path):
    """A private one at a local server is not continued at the vendor's of the same name."""
    file, local = tmp_path / "talk.json", Provider("openai", base_url="http://127.0.0.1:9/v1", api_key="k")
    Conversation("private", model=local.model("m")).save(file)
    for _ in range(2):
        loaded = Conversation.load(file)
        with pytest.raises(ConfigError, match=r"at http://127.0.0.1:9/v1, which that name does not give"):
            loaded.ask("more")
        loaded.save(file)
    assert Conversation.load(file, model="demo:any").ask("more").content
    Conversation("open", model=Provider("demo").model("any")).save(file)
    assert Conversation.load(file).ask("more").content
