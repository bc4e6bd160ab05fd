"""dragoman carries tool calls between LLM protocols: an agent speaks one, its model another.

exchange = dragoman.Exchange(client="anthropic", upstream="gemini")
body = exchange.request(client_body)      # send it to exchange.path
reply = exchange.response(upstream_body)  # or exchange.stream(): feed and close
exchange.losses                           # what did not survive

The client calls models itself: `generate("…", "provider:model", tools=[…])`, `stream`, `run`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.calls import build_tool_results, parse_tool_calls, translate_tools
from dragoman.core.errors import (
    ConfigError,
    DragomanError,
    GrammarError,
    LossError,
    UpstreamError,
    WireError,
)
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, ToolCall, ToolResult
from dragoman.exchange import Exchange

if TYPE_CHECKING:
    from dragoman.client import (
        AssistantMessage,
        Conversation,
        ModelRetry,
        OutputError,
        Provider,
        SystemMessage,
        Tool,
        ToolMessage,
        UserMessage,
        agenerate,
        amodels,
        arun,
        astream,
        dump_messages,
        generate,
        get_arguments,
        load_messages,
        media,
        models,
        run,
        stream,
        tool,
    )
    from dragoman.dialects import names as dialects
    from dragoman.protocols import names as protocols

__version__ = "0.1.0"

__all__ = [
    "AssistantMessage",
    "ConfigError",
    "Conversation",
    "DragomanError",
    "Exchange",
    "Failure",
    "GrammarError",
    "Loss",
    "LossError",
    "ModelRetry",
    "OutputError",
    "Provider",
    "SystemMessage",
    "Tool",
    "ToolCall",
    "ToolMessage",
    "ToolResult",
    "UpstreamError",
    "UserMessage",
    "WireError",
    "agenerate",
    "amodels",
    "arun",
    "astream",
    "build_tool_results",
    "dialects",
    "dump_messages",
    "generate",
    "get_arguments",
    "load_messages",
    "media",
    "models",
    "parse_tool_calls",
    "protocols",
    "run",
    "stream",
    "tool",
    "translate_tools",
]


if not TYPE_CHECKING:
    from dragoman import dialects, protocols  # packages that list their names when they are called


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """The names of the client, which brings the network with it, are loaded when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("dragoman.client"), name)
    return value
