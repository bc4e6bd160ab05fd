"""An agent that is defined once and run often: a model, its tools and the settings of every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, Unpack

from dragoman.client.conversation import Conversation
from dragoman.client.loop import Run, RunOptions, arun, run
from dragoman.client.messages import Prompt
from dragoman.client.output import Output, OutputSpec
from dragoman.client.providers import Model, model_of
from dragoman.client.setting_types import check_settings, lists_keywords
from dragoman.client.tools import ToolLike, tools_of


class Agent(Generic[Output]):
    """`Agent("provider:model", [tool], system="…", temperature=0)`, then `agent.run("…")`.

    It holds no conversation, so one agent serves many at a time. Options of a run win over those of the
    agent. A wrong name of the model or a wrong setting raises ConfigError here, not at the first run.
    """

    @lists_keywords(RunOptions)
    def __init__(
        self,
        model: str | Model,
        tools: Iterable[ToolLike] = (),
        *,
        output: OutputSpec[Output] = None,
        **options: Unpack[RunOptions],
    ) -> None:
        check_settings(options)
        self.model: Final = model_of(model)
        self.tools: Final[tuple[ToolLike, ...]] = tuple(tools_of(tools))
        self.output: Final[OutputSpec[Output]] = output
        self.options: Final = options

    @lists_keywords(RunOptions)
    def run(self, conversation: Prompt, **options: Unpack[RunOptions]) -> Run[Output]:
        """As `dragoman.run`; `on_event` shows the events as they come."""
        return run(conversation, self.model, self.tools, output=self.output, **self._with(options))

    @lists_keywords(RunOptions)
    async def arun(self, conversation: Prompt, **options: Unpack[RunOptions]) -> Run[Output]:
        """Like `run`, for async code."""
        return await arun(conversation, self.model, self.tools, output=self.output, **self._with(options))

    def conversation(self, messages: Prompt = ()) -> Conversation:
        """A conversation with this agent, whose `ask` gives text."""
        return Conversation(messages, model=self.model, tools=self.tools, **self.options)

    def _with(self, options: RunOptions) -> RunOptions:
        return RunOptions({**self.options, **options})

    def __repr__(self) -> str:
        return f"Agent({str(self.model)!r}, {len(self.tools)} tools)"
