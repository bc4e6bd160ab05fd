"""A program as a user writes it: test_typing.py checks it with pyright in strict mode, and runs it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import httpx2
import msgspec
from pydantic import BaseModel, Field

from dragoman import (
    Cancellation,
    Conversation,
    Hooks,
    ModelRetry,
    OutputError,
    Provider,
    RunContext,
    Tool,
    ToolMessage,
    UpstreamError,
    UserMessage,
    agenerate,
    arun,
    astream,
    dump_messages,
    generate,
    generate_many,
    get_arguments,
    load_messages,
    media,
    models,
    run,
    stream,
    tool,
)
from dragoman.client import Finish, Result, Run, RunEvent, RunOptions, TextDelta, ToolRunProgress
from dragoman.demo import DemoTransport
from dragoman.integrations import HttpxTransport


class City(BaseModel):
    name: str
    inhabitants: Annotated[int, Field(ge=0)] = 0


@dataclass
class Deps:
    unit: Literal["C", "F"]


class Point(msgspec.Struct):
    x: float


@tool
def get_weather(context: RunContext[Deps], city: str) -> str:
    """Get the weather."""
    if not city:
        raise ModelRetry("Which city?")
    context.progress("looking")
    return f"72 {context.deps.unit}, after {context.usage.output} tokens"


@tool(needs_approval=True, timeout=5)
async def remember(place: City) -> list[str]:
    return [place.name]


def count(limit: int) -> Iterator[int]:
    yield from range(limit)


class Log(Hooks[Deps]):
    def before_tool(self, context: RunContext[Deps], call: dict[str, object]) -> None:
        print(context.deps.unit, call)


model = Provider("mine", protocol="anthropic", base_url="http://x", transport=DemoTransport()).model("m")
tools: list[Tool] = [get_weather, remember]


def main() -> None:
    reply = generate("Hi", "demo:any", temperature=0.5, max_tokens=9, timeout=3, tries=1)
    print(reply.content, reply.usage.input, reply.cost, [loss.code for loss in reply.losses])
    for call in reply.tool_calls:
        print(get_arguments(call)["city"], ToolMessage(call, "72"))
    city = generate("Hi", model, output=City, output_mode="tool").output
    print(city.inhabitants + 1)
    points = generate("Hi", model, output=list[Point]).output
    print(points[0].x)
    number = run("Hi", model, [get_weather, count], output=int, context=Deps("F"), hooks=Log()).output
    print(number + 1)
    picture = UserMessage("Hi", images=[Path(__file__).read_bytes()], files=[Path(__file__)])
    with stream([picture], model, tools=tools, output=City) as events:
        for event in events:
            match event:
                case TextDelta(text):
                    print(text)
                case Finish(reason, usage):
                    print(reason, usage.output)
                case _:
                    pass
    print(events.result.output.name)
    seen: list[RunEvent] = []
    options: RunOptions = {"max_turns": 3, "max_seconds": 9, "cancel": Cancellation()}
    done = run("Weather in Rome", model, tools, context=Deps("C"), on_event=seen.append)
    print(any(isinstance(event, ToolRunProgress) for event in seen), run("Hi", model, **options).cost)
    print([message.content for message in done.messages], done.stopped == "answer", done.approvals)
    for reply in generate_many(["Hi"], model, output=City, concurrency=2):
        print(reply.index, reply.result.output.name if reply.result else reply.error)
    for info in models("demo"):
        print(info.id, info.context_window, info.price.input if info.price else None)
    print(httpx2.Client(transport=HttpxTransport({"gpt-4o": model, "*": "demo:any"})))
    talk = Conversation(model=model, tools=tools, system="Be brief.", context=Deps("C"))
    talk.ask(UserMessage(["Compare", media("https://example.com/a.png"), "with", b"a text"]))
    print(talk.fork().ask("Hi", output=City).output.name, load_messages(dump_messages(talk.messages)))


def shown(result: Result[City], finished: Run[int]) -> str:
    return f"{result.output.name} {finished.output + 1}"


async def later() -> None:
    print((await agenerate("Hi", model, output=Point)).output.x, (await arun("Hi", model)).content)
    async with astream("Hi", model) as events:
        async for event in events:
            print(event)


try:
    main()
    asyncio.run(later())
except OutputError as error:
    print(error.problems)
except UpstreamError as error:
    print(error.failure.kind, error.failure.status)
