"""A tool: its declaration for the model, and the function behind it."""

from __future__ import annotations

import asyncio
import typing
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from copy import copy
from inspect import getdoc, isasyncgenfunction, isawaitable, iscoroutinefunction, isgenerator
from types import MethodType
from typing import Any, Literal, TypedDict, Unpack, overload

from dragoman.client import schemas
from dragoman.client.background import wait_for
from dragoman.client.context import RunContext
from dragoman.client.server_tools import ServerTool
from dragoman.client.validation import ArgumentValidator
from dragoman.client.values import ToolOutcome, outcome
from dragoman.core import model
from dragoman.core.errors import ConfigError, WireError
from dragoman.core.losses import Losses
from dragoman.protocols import codec as find_codec
from dragoman.protocols import names

Function = Callable[..., Any]


class ToolOptions(TypedDict, total=False):
    strict: bool | None  # whether arguments must follow the schema exactly, where the provider can enforce it
    timeout: float | None  # seconds that it may take in an agent loop
    parallel: bool  # whether it may run beside other calls; True where nothing is given
    needs_approval: bool | None  # True: a run without `approve` stops before it; False: runs unapproved


class Tool:
    """`parameters` is a JSON Schema. Without a `function` the call is handed to you.

    A function that is a generator shows its progress: what it yields is an event of the run. Its result is
    what it returns, else what it yielded last.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: model.Wire | None = None,
        function: Function | None = None,
        *,
        strict: bool | None = None,
        timeout: float | None = None,
        parallel: bool = True,
        needs_approval: bool | None = None,
    ) -> None:
        self.name: str = name
        self.description: str = description
        self.function: Function | None = function
        self.parameters: model.Wire = parameters or {"type": "object", "properties": {}}
        self.strict: bool | None = strict
        self.timeout: float | None = timeout
        self.parallel: bool = parallel
        self.needs_approval: bool | None = needs_approval
        self.hints: dict[str, Any] = {}  # parameter -> type, where the schema was made from them
        self.binds: Literal["", "instance", "class"] = ""  # to what a method is bound when it is looked up
        self._checked: ArgumentValidator | None = None
        self._context = ""  # the parameter that takes a RunContext

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Tool:
        """A tool that was written as a method is bound like a method: `self` or `cls` is not an argument."""
        target: Any = owner if self.binds == "class" else instance
        if not self.binds or target is None or self.function is None:
            return self
        bound = copy(self)
        bound.function, bound.binds, bound._checked = MethodType(self.function, target), "", None
        return bound

    def call(self, arguments: Mapping[str, Any], context: RunContext[Any] | None = None) -> ToolOutcome:
        """Call the function with these arguments; what it raises becomes a failed outcome."""
        return wait_for(self.acall(arguments, context))

    async def acall(
        self, arguments: Mapping[str, Any], context: RunContext[Any] | None = None
    ) -> ToolOutcome:
        """Like `call`. A function that is not async runs on a thread of its own."""
        function = self.function
        if function is None:
            return ToolOutcome(f"the tool {self.name} has no function here", failed=True)
        context = context or RunContext(None)
        try:
            values = self._validator(function).convert(arguments)
            if self._context:
                values[self._context] = context
            if iscoroutinefunction(function):
                return outcome(await function(**values))
            if isasyncgenfunction(function):
                return outcome(await _last(function(**values), context))
            output = await asyncio.to_thread(_output, function, values, context)
            return outcome(await output if isawaitable(output) else output)
        except Exception as error:
            return outcome(error)

    def _validator(self, function: Function) -> ArgumentValidator:
        if self._checked is None:
            self._context = schemas.context_parameter(function)
            self._checked = ArgumentValidator(self.name, function, self.hints, self._context)
        return self._checked

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, as it was written."""
        if self.function is None:
            raise ConfigError(f"The tool {self.name} has no function.")
        return self.function(*args, **kwargs)

    def neutral(self) -> model.ToolDeclaration:
        return model.ToolDeclaration(
            self.name, self.description, self.parameters, self.strict, where=f"tools.{self.name}"
        )

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, {self.description!r})"


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *, name: str = "", description: str = "", **options: Unpack[ToolOptions]
) -> Callable[[Function], Tool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    **options: Unpack[ToolOptions],
) -> Tool | Callable[[Function], Tool]:
    """A tool from a function or a method: its name, docstring and type hints become the declaration."""

    def make(function: Function) -> Tool:
        inner = getattr(function, "__func__", None)
        if isinstance(inner, Tool):  # @classmethod above @tool, since Python 3.13
            return inner.__get__(getattr(function, "__self__", None))
        kind = type(function)
        if kind is classmethod or kind is staticmethod:
            function = typing.cast(Function, inner)
        described = schemas.unwrap_function(function)
        summary, _ = schemas.docstring(getdoc(described) or "")
        parameters, named = schemas.function_schema(function), name or _name(function, described)
        out = Tool(named, description or summary, parameters, function, **options)
        out.hints = schemas.hints_of(function)
        if schemas.is_method(function):
            out.binds = "class" if kind is classmethod else "instance"
        return out

    return make if function is None else make(function)


def _name(function: Function, described: Any) -> str:
    """An instance has the name of its class; a lambda has none."""
    named = function if described.__name__ == "__call__" else described
    name = str(getattr(named, "__name__", type(named).__name__))
    if not name.isidentifier():
        raise ConfigError(f"{name} cannot be the name of a tool. Give it one: tool(name=…)(function)")
    return name


def _output(function: Function, values: Mapping[str, Any], context: RunContext[Any]) -> Any:
    """What the function returns. A generator runs to its end, and shows what it yields as progress."""
    output = function(**values)
    if not isgenerator(output):
        return output
    last: Any = None
    while True:
        try:
            last = next(output)
        except StopIteration as end:
            return last if end.value is None else end.value
        context.progress(last)


async def _last(values: AsyncIterator[Any], context: RunContext[Any]) -> Any:
    last: Any = None
    async for last in values:
        context.progress(last)
    return last


ToolLike = Tool | ServerTool | Function | model.ToolDeclaration | model.HostedTool | Mapping[str, Any]


AnyTool = Tool | ServerTool | model.ToolDeclaration | model.HostedTool


def declare_tool(tool: AnyTool) -> model.AnyTool:
    match tool:
        case Tool():
            return tool.neutral()
        case ServerTool():
            return tool.tool
        case _:
            return tool


def tools_of(tools: Iterable[ToolLike]) -> list[AnyTool]:
    """Functions become tools; dicts are declarations as OpenAI or Anthropic write them, or tools that a
    provider runs (`{"type": "web_search"}`), as any protocol writes them."""
    given = typing.cast(object, tools)  # whatever a caller without a type checker passes
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise ConfigError("tools is a list, of one tool too: tools=[…].")
    listed = [_tool(each) for each in tools]
    names = Counter([each.name for each in listed if isinstance(each, Tool)])
    if twice := next((name for name, count in names.items() if count > 1), ""):
        raise ConfigError(f"Two tools are called {twice!r}. Give each a name of its own.")
    return listed


def _tool(value: ToolLike) -> AnyTool:
    match value:
        case Tool(binds="instance" | "class"):
            raise ConfigError(f"The tool {value.name} is a method. Take it from an instance of its class.")
        case Tool() | ServerTool() | model.ToolDeclaration() | model.HostedTool():
            return value
        case Mapping():
            if hosted := _read_hosted(value):
                return hosted
            function = value.get("function", value)
            if not function.get("name"):
                raise ConfigError(f"A tool needs a name: {dict(value)!r}")
            parameters = function.get("parameters") or function.get("input_schema")
            return Tool(function["name"], function.get("description") or "", parameters)
        case _ if callable(value):
            return tool(value)
        case _:
            raise ConfigError(f"a tool is a Tool, a function or a declaration, not {value!r}")


def _read_hosted(value: Mapping[str, Any]) -> model.HostedTool | None:
    """A tool without a schema of its own, in the words of the protocol that knows it."""
    if not value.keys().isdisjoint(("function", "parameters", "input_schema")):
        return None
    for codec in map(find_codec, names()):
        body = {"model": "", codec.turns: [], "tools": [dict(value)]}
        try:
            found = codec.decode_request(body, Losses()).tools
        except WireError:
            continue
        if len(found) == 1 and isinstance(found[0], model.HostedTool) and found[0].kind != "other":
            return found[0]
    return None
