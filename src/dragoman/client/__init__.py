"""The client: define a tool once, call any model."""

from dragoman.client.agent import Agent
from dragoman.client.batch_files import agenerate_file, generate_file
from dragoman.client.context import Cancellation, Hooks, RunContext
from dragoman.client.conversation import Conversation
from dragoman.client.executing import ToolRunEnd, ToolRunProgress, ToolRunStart
from dragoman.client.generating import agenerate, generate
from dragoman.client.hosted_parts import HostedCallResult
from dragoman.client.loop import Run, RunEvent, RunOptions, TurnEnd, TurnStart, arun, run
from dragoman.client.many import Progress, PromptReply, agenerate_many, generate_many
from dragoman.client.media import media
from dragoman.client.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from dragoman.client.output import OutputError, OutputMode
from dragoman.client.providers import Model, ModelInfo, Provider, amodels, models
from dragoman.client.requests import RequestSettings
from dragoman.client.results import Result
from dragoman.client.server_tools import ServerTool, mcp, web_fetch, web_search
from dragoman.client.streaming import (
    AsyncStream,
    Finish,
    HostedCallEnd,
    HostedCallStart,
    OutputDelta,
    ReasoningDelta,
    RefusalDelta,
    Stream,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    astream,
    stream,
)
from dragoman.client.tools import Tool, tool
from dragoman.client.transcripts import dump_messages, export, load, load_messages
from dragoman.client.values import ModelRetry, get_arguments
from dragoman.http.client import Timeouts
from dragoman.profiles import Surface

__all__ = [
    "Agent",
    "AssistantMessage",
    "AsyncStream",
    "Cancellation",
    "Conversation",
    "Finish",
    "Hooks",
    "HostedCallEnd",
    "HostedCallResult",
    "HostedCallStart",
    "Model",
    "ModelInfo",
    "ModelRetry",
    "OutputDelta",
    "OutputError",
    "OutputMode",
    "Progress",
    "PromptReply",
    "Provider",
    "ReasoningDelta",
    "RefusalDelta",
    "RequestSettings",
    "Result",
    "Run",
    "RunContext",
    "RunEvent",
    "RunOptions",
    "ServerTool",
    "Stream",
    "StreamEvent",
    "Surface",
    "SystemMessage",
    "TextDelta",
    "Timeouts",
    "Tool",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolMessage",
    "ToolRunEnd",
    "ToolRunProgress",
    "ToolRunStart",
    "TurnEnd",
    "TurnStart",
    "UserMessage",
    "agenerate",
    "agenerate_file",
    "agenerate_many",
    "amodels",
    "arun",
    "astream",
    "dump_messages",
    "export",
    "generate",
    "generate_file",
    "generate_many",
    "get_arguments",
    "load",
    "load_messages",
    "mcp",
    "media",
    "models",
    "run",
    "stream",
    "tool",
    "web_fetch",
    "web_search",
]
