"""The agent loop: the model calls, the tools run, their results go back, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Unpack, cast

from msgspec import Struct

from dragoman.client.background import Calls
from dragoman.client.budget import Bounds, Stopped, add_usage, total_cost
from dragoman.client.context import Cancellation, Hooks, RunContext
from dragoman.client.display import markdown_of
from dragoman.client.executing import (
    Approve,
    Executor,
    ToolRunEnd,
    ToolRunProgress,
    ToolRunStart,
    await_value,
)
from dragoman.client.generating import agenerate
from dragoman.client.messages import (
    AnyMessage,
    AssistantMessage,
    OpenAICall,
    Prompt,
    ToolMessage,
    messages_of,
)
from dragoman.client.output import Output, OutputError, OutputSpec
from dragoman.client.providers import Model, model_of
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.setting_types import check_settings, lists_keywords
from dragoman.client.streaming import StreamEvent
from dragoman.client.tools import Tool, ToolLike, tools_of
from dragoman.client.transcripts import export
from dragoman.core.losses import Loss
from dragoman.core.model import Usage, Wire


class TurnStart(Struct, frozen=True):
    """Request number `number` to the model."""

    number: int


class TurnEnd(Struct, frozen=True):
    number: int
    result: Result[Any]


RunEvent = StreamEvent | TurnStart | TurnEnd | ToolRunStart | ToolRunProgress | ToolRunEnd
OnEvent = Callable[[RunEvent], Any]


class RunOptions(RequestSettings, total=False):
    """Every keyword of `run` beside `output`; the settings of the requests are among them."""

    # Limits of the whole run; None: no limit. A limit is checked after each reply, before its calls run
    max_turns: int | None  # replies of the model; 20 where nothing is given
    max_seconds: float | None
    max_total_tokens: int | None
    max_cost: float | None  # US dollars, by the prices of the profiles
    # Tools
    tool_timeout: float | None  # seconds for each call; a tool may have its own
    max_parallel: int | None  # how many calls of a reply run at a time; None: all
    approve: Approve | None  # called before each call: True, or why not; or the decisions by call id
    context: Any  # `deps` of the RunContext that tools and hooks get
    # What happens
    on_event: OnEvent | None  # sees every event of every reply and every tool that runs
    hooks: Hooks[Any] | Sequence[Hooks[Any]] | None
    cancel: Cancellation | None


class Run(Generic[Output]):
    """What an agent loop did. `messages` is the whole conversation, ready to be continued.

    `stopped` is why it ended: answer; turns, time, tokens or cost (a limit); tool_calls (of tools without a
    function); approval (a call that needs one); output (no valid one); stopped (RunContext.stop); cancelled;
    error: the run is `run` of the exception that ended it.
    """

    def __init__(self, messages: list[AnyMessage], model: Model, tools: list[ToolLike]) -> None:
        self.messages: list[AnyMessage] = messages
        self.model: Model = model
        self.tools: list[ToolLike] = tools
        self.results: list[Result[Output]] = []
        self.usage = Usage()
        self.stopped: Stopped = "answer"
        self.approvals: list[dict[str, Any]] = []  # calls that wait for an approval
        self.stop_requested = False

    @property
    def content(self) -> str:
        """The text of the last reply."""
        return self.results[-1].content if self.results else ""

    @property
    def output(self) -> Output:
        """The typed output, validated; raises OutputError where the run stopped before there was one."""
        if self.results and self.stopped in ("answer", "output"):
            return self.results[-1].output
        raise OutputError([f"the run stopped before an answer: {self.stopped}"])

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Calls of the last reply without a result."""
        return _find_unanswered(self.messages)

    @property
    def cost(self) -> float | None:
        """US dollars for all replies; None where the price of one is not known."""
        return total_cost([result.cost for result in self.results])

    @property
    def losses(self) -> list[Loss]:
        return list(dict.fromkeys(loss for result in self.results for loss in result.losses))

    def export(self, protocol: str, model: str = "") -> Wire:
        """The conversation as the body of a request in that protocol; state goes only to its issuer."""
        origins = [each.issuer for each in self.model.provider.surfaces if each.protocol == protocol]
        origin = origins[0] if origins else ""
        return export(self.messages, protocol, model or self.model.name, self.tools, origin)

    def add(self, result: Result[Output]) -> None:
        self.results.append(result)
        self.messages.append(result)
        self.usage: Usage = add_usage(self.usage, result.usage)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle. Functions of tools stay behind: another process may not have them, and needs them only
        where the run goes on, to which it passes its own."""
        tools = [each.neutral() if isinstance(each, Tool) else each for each in tools_of(self.tools)]
        return {**self.__dict__, "tools": tools}

    def _repr_markdown_(self) -> str:  # Jupyter
        return markdown_of(self.messages)

    def __repr__(self) -> str:
        return f"Run(stopped={self.stopped!r}, turns={len(self.results)}, content={self.content!r})"


@lists_keywords(RunOptions)
async def arun(
    conversation: Prompt,
    model: str | Model,
    tools: Iterable[ToolLike] = (),
    *,
    output: OutputSpec[Output] = None,
    **options: Unpack[RunOptions],
) -> Run[Output]:
    """Ask, run what is called, send back the results, until the model answers or a limit is reached.

    A conversation that ends with calls without results begins with running them. The options are those of
    `RunOptions`: limits, approvals, context, hooks, events, and the settings of the requests. Cancelling
    the task cancels the request and the tools under way. An exception of the provider or of a hook has the
    attribute `run`: what was done before it, ready to be continued.
    """
    listed: list[ToolLike] = list(tools_of(tools))
    run: Run[Output] = Run(list(messages_of(conversation)), model_of(model), listed)
    await AgentLoop(run, output, options).run_to_end(options.get("max_seconds"), options.get("cancel"))
    return run


@lists_keywords(RunOptions)
def run(
    conversation: Prompt,
    model: str | Model,
    tools: Iterable[ToolLike] = (),
    *,
    output: OutputSpec[Output] = None,
    **options: Unpack[RunOptions],
) -> Run[Output]:
    """Like `arun`, for code that is not async; `approve`, `on_event` and hooks are called on your thread."""
    calls = Calls()
    approve, on_event, hooks = options.get("approve"), options.get("on_event"), _hooks(options)
    if callable(approve):
        options["approve"] = calls.on_caller(approve)
    if on_event:
        options["on_event"] = calls.on_caller(on_event)
    if hooks:
        options["hooks"] = [_HooksOnCaller(each, calls) for each in hooks]
    return calls.wait(arun(conversation, model, tools, output=output, **options))


class AgentLoop:
    """One run.

    States:  asking the model → running tools → asking the model → … → stopped

    The model is called as long as its replies call tools and no limit is reached. A run that is cancelled or
    runs out of time keeps the answers of the calls that have finished.
    """

    def __init__(self, run: Run[Any], output: Any, options: RunOptions) -> None:
        check_settings(options)
        self._run, self._output = run, output
        self._settings = cast(
            RequestSettings, {name: value for name, value in options.items() if name not in _RUN_ONLY}
        )
        self._on_event, self._hooks = options.get("on_event"), _hooks(options)
        self._bounds = Bounds(
            options.get("max_turns", 20), options.get("max_total_tokens"), options.get("max_cost")
        )
        self._deps = options.get("context")
        self._executor = Executor(
            [tool for tool in run.tools if isinstance(tool, Tool)],
            options,
            self._notify if self._on_event else None,
            self._hooks,
            lambda call, show: RunContext(self._deps, run, call, show),
        )

    async def run_to_end(self, seconds: float | None, cancel: Cancellation | None) -> None:
        clock = asyncio.timeout(seconds)
        try:
            async with clock, _heed_cancellation(cancel):
                self._run.stopped = await self._turns()
        except TimeoutError:
            if not clock.expired():
                raise
            self._run.stopped = "time"
        except CancelledElsewhere:
            self._run.stopped = "cancelled"
        except Exception as error:
            self._run.stopped = "error"
            error.run = self._run  # pyright: ignore[reportAttributeAccessIssue] - for whoever catches it
            raise
        finally:
            self._run.messages += self._executor.take_finished()

    async def _turns(self) -> Stopped:
        run, executor = self._run, self._executor
        pending = run.tool_calls
        if pending and not executor.is_handed_back(pending) and (stopped := await self._call(pending)):
            return stopped
        while True:
            try:
                result = await self._ask()
            except OutputError as error:
                if error.result:
                    run.add(error.result)
                return "output"
            calls = result.tool_calls
            if not calls:
                return "answer"
            if executor.is_handed_back(calls):
                return "tool_calls"
            if reached := self._bounds.find_reached(len(run.results), run.usage, run.cost):
                return reached
            if stopped := await self._call(calls):
                return stopped
            if result.has_output:  # in the same reply as the calls
                return "answer"

    async def _call(self, calls: list[OpenAICall]) -> Stopped | None:
        run, executor = self._run, self._executor
        run.approvals = [call for call in calls if executor.needs_decision(call)]
        if run.approvals:
            return "approval"
        run.messages += await executor.run(calls)
        return "stopped" if run.stop_requested else None

    async def _ask(self) -> Result[Any]:
        run, context = self._run, RunContext(self._deps, self._run)
        number = len(run.results) + 1
        await self._notify(TurnStart(number))
        messages: Prompt = run.messages
        for hooks in self._hooks:
            messages = (
                await await_value(hooks.before_model(context, tuple(messages_of(messages)))) or messages
            )
        result = await agenerate(
            messages,
            run.model,
            output=self._output,
            tools=run.tools,
            on_event=self._on_event,
            **self._settings,
        )
        run.add(result)
        for hooks in reversed(self._hooks):
            await await_value(hooks.after_model(context, result))
        await self._notify(TurnEnd(number, result))
        return result

    async def _notify(self, event: RunEvent) -> None:
        if self._on_event:
            await await_value(self._on_event(event))


_RUN_ONLY = frozenset(RunOptions.__annotations__) - frozenset(RequestSettings.__annotations__)


class CancelledElsewhere(Exception):
    """A Cancellation ended the run."""


@asynccontextmanager
async def _heed_cancellation(cancel: Cancellation | None) -> AsyncGenerator[None]:
    """Raises CancelledElsewhere inside where `cancel` is used; other cancellations pass."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if cancel is None or task is None:
        yield
        return
    ours = False

    def end() -> None:
        nonlocal ours
        if active:
            ours = True
            task.cancel()

    active = True
    remove = cancel.on_cancel(lambda: loop.call_soon_threadsafe(end))
    try:
        yield
    except asyncio.CancelledError:
        if not ours or task.uncancel() > 0:
            raise
        raise CancelledElsewhere from None
    finally:
        active = False
        remove()


class _HooksOnCaller(Hooks[Any]):
    """Hooks that run where the caller of a synchronous function waits."""

    def __init__(self, hooks: Hooks[Any], calls: Calls) -> None:
        for name in ("before_model", "after_model", "before_tool", "after_tool"):
            setattr(self, name, calls.on_caller(getattr(hooks, name)))


def _hooks(options: RunOptions) -> Sequence[Hooks[Any]]:
    given = options.get("hooks") or ()
    return (given,) if isinstance(given, Hooks) else given


def _find_unanswered(messages: Sequence[AnyMessage]) -> list[OpenAICall]:
    """The calls of the last reply that no message after it answers."""
    answered: list[str] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        if not isinstance(message, ToolMessage):
            return []
        answered.append(message.tool_call_id)
    return []
