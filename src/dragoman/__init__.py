"""dragoman carries tool calls between LLM protocols: an agent speaks one, its model another.

exchange = dragoman.Exchange(client="anthropic", upstream="gemini")
body = exchange.request(client_body)      # send it to exchange.path
reply = exchange.response(upstream_body)  # or exchange.stream(): feed and close
exchange.losses                           # what did not survive

The client calls models itself: `generate("…", "provider:model", tools=[…])`, `stream`, `run`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.core.errors import (
    AuthenticationError,
    BadRequestError,
    BillingError,
    ConfigError,
    ConflictError,
    ContextTooLongError,
    DragomanError,
    GrammarError,
    LossError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitError,
    RequestTooLargeError,
    ServerError,
    TruncatedError,
    UpstreamError,
    UpstreamTimeoutError,
    WireError,
)
from dragoman.core.losses import Loss
from dragoman.core.model import Failure, ToolCall, ToolResult
from dragoman.core.optional import MissingExtraError

if TYPE_CHECKING:
    from dragoman.calls import build_tool_results, parse_tool_calls, translate_tools
    from dragoman.client import (
        Agent,
        AssistantMessage,
        Cancellation,
        Conversation,
        Hooks,
        ModelRetry,
        OutputError,
        Provider,
        RunContext,
        SystemMessage,
        Tool,
        ToolMessage,
        UserMessage,
        agenerate,
        agenerate_file,
        agenerate_many,
        amodels,
        arun,
        astream,
        dump_messages,
        generate,
        generate_file,
        generate_many,
        get_arguments,
        load_messages,
        mcp,
        media,
        models,
        run,
        stream,
        tool,
        web_fetch,
        web_search,
    )
    from dragoman.core.credentials import Credential
    from dragoman.dialects import names as dialects
    from dragoman.exchange import Exchange
    from dragoman.memory.conversation_memory import ConversationMemory
    from dragoman.protocols import names as protocols

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AssistantMessage",
    "AuthenticationError",
    "BadRequestError",
    "BillingError",
    "Cancellation",
    "ConfigError",
    "ConflictError",
    "ContextTooLongError",
    "Conversation",
    "ConversationMemory",
    "Credential",
    "DragomanError",
    "Exchange",
    "Failure",
    "GrammarError",
    "Hooks",
    "Loss",
    "LossError",
    "MissingExtraError",
    "ModelRetry",
    "NotFoundError",
    "OutputError",
    "OverloadedError",
    "PermissionDeniedError",
    "Provider",
    "RateLimitError",
    "RequestTooLargeError",
    "RunContext",
    "ServerError",
    "SystemMessage",
    "Tool",
    "ToolCall",
    "ToolMessage",
    "ToolResult",
    "TruncatedError",
    "UpstreamError",
    "UpstreamTimeoutError",
    "UserMessage",
    "WireError",
    "agenerate",
    "agenerate_file",
    "agenerate_many",
    "amodels",
    "arun",
    "astream",
    "build_tool_results",
    "dialects",
    "dump_messages",
    "generate",
    "generate_file",
    "generate_many",
    "get_arguments",
    "load_messages",
    "mcp",
    "media",
    "models",
    "parse_tool_calls",
    "protocols",
    "run",
    "stream",
    "tool",
    "translate_tools",
    "web_fetch",
    "web_search",
]


# Where names are found that are not those of the client
_MODULES = {
    "ConversationMemory": "dragoman.memory.conversation_memory",
    "Credential": "dragoman.core.credentials",
    "Exchange": "dragoman.exchange",
    "build_tool_results": "dragoman.calls",
    "parse_tool_calls": "dragoman.calls",
    "translate_tools": "dragoman.calls",
}
_PACKAGES = ("dialects", "protocols")  # which list their names when they are called


def __dir__() -> list[str]:
    return sorted({"__all__", "__doc__", "__file__", "__name__", "__path__", "__version__", *__all__})


def __getattr__(name: str) -> Any:
    """Most names are loaded when they are first used: translation and the network take time to import."""
    if name in _PACKAGES:
        value = import_module(f"dragoman.{name}")
    elif name in __all__:
        value = getattr(import_module(_MODULES.get(name, "dragoman.client")), name)
    else:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    globals()[name] = value
    return value
