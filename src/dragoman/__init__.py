"""dragoman carries tool calls between LLM protocols: an agent speaks one, its model another.

exchange = dragoman.Exchange(client="anthropic", upstream="gemini")
body = exchange.request(client_body)      # send it to exchange.path
reply = exchange.response(upstream_body)  # or exchange.stream(): feed and close
exchange.losses                           # what did not survive
"""

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
from dragoman.core.model import ToolCall, ToolResult
from dragoman.dialects import names as dialects
from dragoman.exchange import Exchange
from dragoman.protocols import names as protocols

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DragomanError",
    "Exchange",
    "GrammarError",
    "Loss",
    "LossError",
    "ToolCall",
    "ToolResult",
    "UpstreamError",
    "WireError",
    "build_tool_results",
    "dialects",
    "parse_tool_calls",
    "protocols",
    "translate_tools",
]
