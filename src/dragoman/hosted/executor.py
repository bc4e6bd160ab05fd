"""What runs a hosted tool: one executor for each kind. The loop over rounds knows nothing else of it.

    executor.declare(tool, context)        once before the first round: the functions that the model may call
    executor.execute(tool, call, context)  for each call of one of them, several at a time

The loop bounds each call: `CallLimits.seconds` for its time (the task is cancelled: close what is open), and
`CallLimits.result_bytes` for its content, which it cuts. Both functions raise nothing but CancelledError.
What goes wrong is a result with an `error`, whose `content` tells the model what happened. Anything else
that escapes becomes "unavailable".
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from dragoman.core.hosted import HostedError, HostedResult
from dragoman.core.model import HostedKind, HostedTool, Message, Text, ToolCall, ToolDeclaration


class CallLimits(Struct, frozen=True):
    """The limits of one client's request; all of them are settings in `[hosted]`."""

    rounds: int = 10
    calls_at_once: int = 8
    seconds: float = 30.0  # a call
    seconds_in_all: float = 120.0  # of all calls together, waiting for the model not counted
    result_bytes: int = 256 * 1024


class HostedContext(Struct, frozen=True):
    """What an executor may know of the request.

    `caller` keeps what callers share apart: sessions with MCP servers, caches. `messages` is the conversation
    so far (Anthropic's fetch takes only addresses that stand in it); `deferred` are the tools that a tool
    search looks through.
    """

    caller: str = ""
    messages: tuple[Message, ...] = ()
    deferred: tuple[ToolDeclaration, ...] = ()
    limits: CallLimits = CallLimits()


class DeclaredFunctions(Struct, frozen=True):
    """The functions that a hosted tool is for the model: one, or those of an MCP server, by their own names.

    The loop renames a function whose name the client's tools have already. `approval`: names of functions
    that the client must approve before they run. `error`: there are none, and why (an MCP server that cannot
    be reached); the protocol's own item tells the client, and the request goes on without them.
    """

    functions: tuple[ToolDeclaration, ...] = ()
    approval: frozenset[str] = frozenset()
    error: HostedError | None = None
    problem: str = ""  # `error` in words, without addresses or keys that the client did not send


class HostedExecutor(Protocol):
    """`kind` is the kind of hosted tools that it runs; settings of a tool are in neutral words
    (`HostedTool.settings`), those of the executor itself come from its part of the configuration."""

    @property
    def kind(self) -> HostedKind: ...

    async def declare(self, tool: HostedTool, context: HostedContext) -> DeclaredFunctions: ...

    async def execute(self, tool: HostedTool, call: ToolCall, context: HostedContext) -> HostedResult:
        """`call.name` is one of the declared functions, by its own name."""
        ...

    async def close(self) -> None:
        """The gateway stops: close connections and sessions."""
        ...


def failure(error: HostedError, problem: str) -> HostedResult:
    """A call that failed; the model reads `problem` and may try something else."""
    return HostedResult((Text(f"Error: {problem}"),), error=error)
