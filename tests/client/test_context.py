"""Context, hooks, approvals, progress, limits and cancellation of the agent loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from client.scripted import Script
from dragoman import (
    AssistantMessage,
    Cancellation,
    ConfigError,
    Conversation,
    Hooks,
    Provider,
    RunContext,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    arun,
    dump_messages,
    load_messages,
    run,
    tool,
)
from dragoman.client import ToolRunEnd, ToolRunProgress, ToolRunStart
from dragoman.core.model import ToolCall
from dragoman.demo import DemoTransport
from waiting import NEVER, finish

DEMO = "demo:demo"
BOTH = "Weather in NYC and SF?"


@dataclass
class Deps:
    unit: str


@tool
def get_weather(context: RunContext[Deps], city: str) -> str:
    """Get the weather.

    Args:
        context: not for the model
        city: the city
    """
    return f"72 {context.deps.unit} in {city}"


class Station:
    @tool
    async def get_weather(self, context: RunContext[Deps], city: str) -> str:
        return f"72 {context.deps.unit} in {city}"


def by_hand(context: RunContext[Deps], city: str) -> str:
    return f"72 {context.deps.unit} in {city}"


TOOLS: dict[str, Any] = {
    "a function": get_weather,
    "a method": Station().get_weather,
    "without @tool": Tool("get_weather", "", get_weather.parameters, by_hand),
}


@pytest.mark.parametrize("declared", TOOLS.values(), ids=TOOLS)
def test_the_context_of_a_tool(declared: Tool):
    assert list(declared.parameters["properties"]) == ["city"]
    assert declared.parameters["required"] == ["city"]
    done = run("Weather in NYC", DEMO, [declared], context=Deps("F"))
    assert done.content == "get_weather returned: 72 F in NYC"
    assert declared.call({"city": "Rome"}, RunContext(Deps("C"))).text == "72 C in Rome"


def test_what_the_context_knows():
    seen: list[Any] = []

    def get_weather(context: RunContext[None], city: str) -> str:
        call = context.call or {}
        seen.append((len(context.messages), context.turn, str(context.model), call["function"]["name"]))
        assert context.usage.output > 0
        assert context.deps is None
        return city

    run("Weather in NYC", DEMO, [get_weather])
    assert seen == [(2, 1, DEMO, "get_weather")]
    with pytest.raises(ConfigError, match="outside a run"):
        _ = RunContext(None).model


def test_a_tool_ends_the_run():
    def get_weather(context: RunContext, city: str) -> str:  # pyright: ignore[reportMissingTypeArgument] - allowed
        context.stop()
        return city

    done = run(BOTH, DEMO, [get_weather])
    assert (done.stopped, len(done.results)) == ("stopped", 1)
    assert [message.content for message in done.messages[-2:]] == ["NYC", "SF"]


# Progress


def counting(city: str) -> Iterator[str]:
    yield "looking"
    yield "found"
    return f"72 in {city}"


def last_one(city: str) -> Iterator[str]:
    yield "looking"
    yield f"72 in {city}"


async def later(city: str) -> AsyncIterator[str]:
    yield "looking"
    await asyncio.sleep(0)
    yield f"72 in {city}"


def reports_progress(context: RunContext[None], city: str) -> str:
    context.progress("looking")
    return f"72 in {city}"


async def reports_progress_later(context: RunContext[None], city: str) -> str:
    context.progress("looking")
    return f"72 in {city}"


GENERATORS: dict[str, tuple[Any, list[str]]] = {
    "a generator that returns": (counting, ["looking", "found"]),
    "a generator that does not": (last_one, ["looking", "72 in NYC"]),
    "an async generator": (later, ["looking", "72 in NYC"]),
    "a function": (reports_progress, ["looking"]),
    "an async function": (reports_progress_later, ["looking"]),
}


@pytest.mark.parametrize(("function", "expected"), GENERATORS.values(), ids=GENERATORS)
def test_progress(function: Any, expected: list[str]):
    declared = tool(name="get_weather")(function)
    events: list[Any] = []
    done = run("Weather in NYC", DEMO, [declared], on_event=events.append)
    assert done.content == "get_weather returned: 72 in NYC"
    ran = [event for event in events if isinstance(event, ToolRunStart | ToolRunProgress | ToolRunEnd)]
    assert [event.value for event in ran[1:-1] if isinstance(event, ToolRunProgress)] == expected
    assert len(ran) == len(expected) + 2
    assert declared.call({"city": "NYC"}).text == "72 in NYC"
    assert run("Weather in NYC", DEMO, [declared]).content == done.content


def test_a_generator_that_fails():
    def get_weather(city: str) -> Iterator[str]:
        yield "looking"
        raise LookupError("none")

    assert run("Weather in NYC", DEMO, [get_weather]).content == "get_weather failed: LookupError: none"


# Hooks


class Log(Hooks[Deps]):
    def __init__(self, log: list[str], name: str = "") -> None:
        self.log, self.name, self.threads = log, name, set[threading.Thread]()

    def note(self, text: str) -> None:
        self.log.append(self.name + text)
        self.threads.add(threading.current_thread())

    def before_model(self, context: RunContext[Deps], messages: Sequence[Any]) -> None:
        self.note(f"model {len(messages)}")

    async def after_model(self, context: RunContext[Deps], result: Any) -> None:
        self.log.append(f"{self.name}reply {len(result.tool_calls)}")

    def before_tool(self, context: RunContext[Deps], call: dict[str, Any]) -> None:
        self.note(f"call {context.deps.unit}")

    def after_tool(self, context: RunContext[Deps], call: dict[str, Any], message: ToolMessage) -> None:
        self.note(f"result {message.content}")


def test_hooks_around_everything():
    log: list[str] = []
    hooks = Log(log)
    run("Weather in NYC", DEMO, [get_weather], hooks=hooks, context=Deps("F"))
    assert log == ["model 1", "reply 1", "call F", "result 72 F in NYC", "model 3", "reply 0"]
    assert hooks.threads == {threading.current_thread()}


def test_the_first_hook_is_the_outermost():
    log: list[str] = []
    hooks = [Log(log, "a "), Log(log, "b ")]
    asyncio.run(arun("Weather in NYC", DEMO, [get_weather], hooks=hooks, context=Deps("F"), max_turns=1))
    assert log == ["a model 1", "b model 1", "b reply 1", "a reply 1"]


class Changes(Hooks[Any]):
    """Overrides one method with another answer."""

    def __init__(self, method: str, answer: Any) -> None:
        setattr(self, method, answer)


def answered(context: Any, call: dict[str, Any]) -> ToolMessage:
    return ToolMessage(call, "from a cache")


HOOKS: dict[str, tuple[str, Any, str]] = {
    "other arguments": (
        "before_tool",
        lambda context, call: {"city": "Rome"},
        "get_weather returned: 72 F in Rome",
    ),
    "an answer instead": ("before_tool", answered, "get_weather returned: from a cache"),
    "another answer": (
        "after_tool",
        lambda context, call, message: ToolMessage(call, message.content.upper()),
        "get_weather returned: 72 F IN NYC",
    ),
    "other messages": (
        "before_model",
        lambda context, messages: [SystemMessage("Hi"), UserMessage("Nothing")],
        "You said: Nothing",
    ),
}


@pytest.mark.parametrize(("method", "answer", "content"), HOOKS.values(), ids=HOOKS)
def test_hooks_that_change_something(method: str, answer: Any, content: str):
    hooks = Changes(method, answer)
    done = run("Weather in NYC", DEMO, [get_weather], hooks=hooks, context=Deps("F"))
    assert done.content == content
    assert done.messages[0] == UserMessage("Weather in NYC")


@pytest.mark.parametrize("method", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_that_fails_ends_the_run(method: str):
    with pytest.raises(ZeroDivisionError):
        run(BOTH, DEMO, [get_weather], hooks=Changes(method, lambda *_: 1 / 0), context=Deps("F"))


# Approvals


def guarded(**options: Any) -> Tool:
    @tool(**options)
    def get_weather(city: str) -> str:
        return f"72 in {city}"

    return get_weather


def test_a_run_stops_before_a_call_that_needs_an_approval():
    declared = guarded(needs_approval=True)
    done = run(BOTH, DEMO, [declared])
    assert done.stopped == "approval"
    assert done.approvals == done.tool_calls
    assert len(done.approvals) == 2
    saved = dump_messages(done.messages)

    first, second = (call["id"] for call in done.approvals)
    partly = run(load_messages(saved), DEMO, [declared], approve={first: True})
    assert (partly.stopped, len(partly.approvals)) == ("approval", 1)

    decisions: dict[str, bool | str] = {first: True, second: "too far"}
    done = run(load_messages(saved), DEMO, [declared], approve=decisions)
    assert done.stopped == "answer"
    assert done.content == (
        "get_weather returned: 72 in NYC\nget_weather failed: This call was not allowed: too far."
    )


APPROVALS: dict[str, tuple[bool | None, Any, int]] = {
    "always asked": (True, lambda call: True, 2),
    "asked if there is somebody": (None, lambda call: True, 2),
    "never asked": (False, lambda call: False, 0),
}


@pytest.mark.parametrize(("needs", "approve", "questions"), APPROVALS.values(), ids=APPROVALS)
def test_who_is_asked(needs: bool | None, approve: Any, questions: int):
    calls: list[Any] = []
    done = run(
        BOTH,
        DEMO,
        [guarded(needs_approval=needs)],
        approve=lambda call: (calls.append(call), approve(call))[1],
    )
    assert (len(calls), done.stopped) == (questions, "answer")


# Going on


def test_calls_that_nobody_answered_run_first():
    done = run(BOTH, DEMO, [guarded()], max_turns=1)
    assert done.stopped == "turns"
    half = [*done.messages, ToolMessage(done.tool_calls[1], "cold")]
    again = run(half, DEMO, [guarded()])
    assert again.content == "get_weather returned: 72 in NYC\nget_weather returned: cold"
    assert len(again.results) == 1


def test_a_run_out_of_time_keeps_what_is_finished(time_is_up: Callable[[], None]):
    async def get_weather(city: str) -> str:
        if city == "SF":
            for _ in range(100):  # the other call ends
                await asyncio.sleep(0)
            time_is_up()
            await asyncio.sleep(NEVER)
        return f"72 in {city}"

    done = run(BOTH, DEMO, [get_weather], max_seconds=NEVER)
    assert done.stopped == "time"
    assert [call["function"]["arguments"] for call in done.tool_calls] == ['{"city":"SF"}']
    assert done.messages[-1].content == "72 in NYC"
    again = run(done.messages, DEMO, [guarded()])
    assert again.content == "get_weather returned: 72 in NYC\nget_weather returned: 72 in SF"


# Limits


def priced(price: dict[str, float] | None) -> Any:
    profiles: dict[str, Any] = {"m": {"price": price}} if price else {}
    return Provider(
        "priced", protocol="anthropic", base_url="http://x", transport=DemoTransport(), profiles=profiles
    ).model("m")


def test_a_limit_of_money():
    model = priced({"input": 1.0, "output": 1.0})
    done = run(BOTH, model, [guarded()], max_cost=1e-9)
    assert (done.stopped, len(done.results)) == ("cost", 1)
    assert done.cost is not None
    assert done.cost > 1e-9
    assert run(BOTH, model, [guarded()], max_cost=1.0).stopped == "answer"
    with pytest.raises(ConfigError, match="price"):
        run(BOTH, priced(None), [guarded()], max_cost=1.0)


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (2, 2), (None, 3)])
def test_so_many_calls_at_a_time(most: int | None, expected: int):
    running = peak = 0

    async def f(n: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.02)
        running -= 1
        return n

    script = Script("openai-chat", [ToolCall(str(n), "f", f'{{"n": {n}}}') for n in range(3)], "done")
    done = run("?", script.model(), [f], max_parallel=most)
    assert [message.content for message in done.messages[-4:-1]] == ["0", "1", "2"]
    assert peak == expected


# Cancellation


def test_cancelled_from_another_thread():
    cancel, started = Cancellation(), threading.Event()

    async def get_weather(city: str) -> str:
        started.set()
        await asyncio.sleep(NEVER)
        return city

    def end() -> None:
        started.wait()
        cancel.cancel()

    threading.Thread(target=end, daemon=True).start()
    done = finish(run, BOTH, DEMO, [get_weather], cancel=cancel)
    assert done.stopped == "cancelled"
    assert len(done.tool_calls) == 2
    assert run(done.messages, DEMO, [guarded()]).stopped == "answer"


def test_cancelled_before_it_began():
    cancel = Cancellation()
    cancel.cancel()
    assert run(BOTH, DEMO, [guarded()], cancel=cancel).stopped == "cancelled"


def test_a_cancellation_that_is_not_used_leaves_nothing_behind():
    cancel = Cancellation()

    async def main() -> None:
        assert (await arun("Hi", DEMO, cancel=cancel)).stopped == "answer"
        cancel.cancel()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_cancelled_task_is_not_a_cancelled_run():
    async def main() -> None:
        task = asyncio.create_task(arun(BOTH, DEMO, [get_weather], cancel=Cancellation()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()

    async def get_weather(city: str) -> str:
        started.set()
        await asyncio.sleep(60)
        return city

    asyncio.run(main())


def test_a_conversation_has_options_for_all_questions():
    talk = Conversation(model=DEMO, tools=[get_weather], context=Deps("F"), max_turns=3)
    assert talk.ask("Weather in NYC").content == "get_weather returned: 72 F in NYC"
    assert talk.ask("Weather in NYC", context=Deps("C")).content == "get_weather returned: 72 C in NYC"
    assert isinstance(talk.messages[-1], AssistantMessage)
