"""The functions that stand for the hosted tools of one request, by the names that the model sees."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.codec import ProtocolLimits
from dragoman.core.hosted import HostedListing
from dragoman.core.loss_codes import severity_of
from dragoman.core.losses import Loss
from dragoman.core.model import AnyTool, ExecutedCall, HostedTool, ToolCall, ToolChoice, ToolDeclaration
from dragoman.hosted.executor import DeclaredFunctions, HostedExecutor

NOT_THEIRS = "_hosted"  # sets the name of a function of ours apart from the client's and the upstream's


class Offered(Struct, frozen=True):
    """A function that stands for a hosted tool. `name` is the executor's name of it; `asks`: the client must
    approve a call."""

    tool: HostedTool
    executor: HostedExecutor
    name: str
    function: ToolDeclaration  # as the model sees it
    asks: bool = False

    @property
    def known(self) -> str:
        """The name by which the client knows it: Anthropic has two searches for tools."""
        return (self.tool.name if self.tool.kind == "tool_search" else "") or self.name

    @property
    def server(self) -> str:
        return str(self.tool.settings.get("label") or "")


class Offers:
    """`taken` are the names of the client's own tools."""

    def __init__(self, client: ProtocolLimits, taken: Iterable[str]) -> None:
        self._codec, self._taken = client.hosted, frozenset(taken)
        self._offered: dict[str, Offered] = {}
        self._loaded: dict[str, ToolDeclaration] = {}  # deferred tools that a search found, in that order
        self.tools: list[HostedTool] = []
        self.losses: list[Loss] = []

    def find(self, call: ToolCall) -> Offered | None:
        return self._offered.get(call.name)

    def add(self, tool: HostedTool, executor: HostedExecutor, declared: DeclaredFunctions) -> None:
        self.tools.append(tool)
        if declared.error:
            why = f"Its functions could not be listed: {declared.problem or declared.error}."
            self._report("dropped", tool, why, f"hosted.{tool.kind}.dropped")
            return
        self._report("emulated", tool, "The upstream has none, so dragoman runs it.", "hosted.emulated")
        for function in declared.functions:
            self._offer(tool, executor, function, function.name in declared.approval)

    def _offer(
        self, tool: HostedTool, executor: HostedExecutor, function: ToolDeclaration, asks: bool
    ) -> None:
        if asks and not self._codec.encode_approval:
            why = (
                f"{function.name} needs an approval. This protocol cannot ask for one, so it is not offered."
            )
            self._report("dropped", tool, why, f"hosted.{tool.kind}.dropped")
            return
        name = function.name
        while name in self._taken or name in self._offered:
            name += NOT_THEIRS
        shown = replace(function, name=name, where=tool.where)
        self._offered[name] = Offered(tool, executor, function.name, shown, asks)

    def _report(self, kind: str, tool: HostedTool, why: str, code: str) -> None:
        where = tool.where or tool.kind
        self.losses.append(Loss(kind, where, why, code, severity_of(code)))  # type: ignore[arg-type]

    @property
    def _searches(self) -> bool:
        return any(tool.kind == "tool_search" for tool in self.tools)

    @property
    def deferred(self) -> tuple[ToolDeclaration, ...]:
        """Tools of MCP servers that a search may load."""
        ours = [each.function for each in self._offered.values()]
        return tuple([each for each in ours if each.deferred and each.name not in self._loaded])

    def load(self, tools: Iterable[ToolDeclaration]) -> None:
        for tool in tools:
            self._loaded.setdefault(tool.name, replace(tool, deferred=False))

    def load_again(self, tools: Iterable[ToolDeclaration], past: Iterable[ExecutedCall]) -> None:
        """What searches of earlier requests found, at the place that it had then."""
        if self._searches:
            known = {tool.name: tool for tool in (*tools, *self.deferred)}
            self.load(known[name] for call in past for name in call.loaded if name in known)

    def declare(self, tools: Iterable[AnyTool]) -> tuple[AnyTool, ...]:
        """`tools` of the client as the model gets them. What was loaded comes last, in the order in which it
        was: the beginning of the prompt stays what it was, and the upstream's cache finds it."""
        kinds, searches = {tool.kind for tool in self.tools}, self._searches
        functions: list[AnyTool] = []
        hosted: list[AnyTool] = []
        for tool in tools:
            if not isinstance(tool, ToolDeclaration):
                hosted += [tool] if tool.kind not in kinds else []
            elif tool.name not in self._loaded and not (tool.deferred and searches):
                functions.append(tool)
        ours = [each.function for each in self._offered.values()]
        ours = [replace(each, deferred=False) for each in ours if not (each.deferred and searches)]
        return (*functions, *hosted, *ours, *self._loaded.values())

    def name_of(self, past: ExecutedCall) -> str:
        """The name under which the model sees the tool of an earlier call; empty: it does not."""
        for shown, offered in self._offered.items():
            same = past.kind != "mcp" or (offered.name, offered.server) == (past.name, past.server)
            if offered.tool.kind == past.kind and same:
                return shown
        return ""

    def choice(self, choice: ToolChoice) -> ToolChoice | None:
        """The client's choice with our functions in the place of its hosted tools."""
        names = dict.fromkeys(choice.names)
        for shown, offered in self._offered.items():
            tool = offered.tool
            label = f"{tool.kind}:{tool.settings.get('label')}"
            named = tool.name in choice.names and tool.name not in self._taken
            if named or {tool.kind, label} & {*choice.hosted}:
                names.pop(tool.name, None)
                names[shown] = None
        if not choice.restricts:
            return choice
        return ToolChoice(choice.mode, tuple(names)) if names else None


def listing_of(id: str, tool: HostedTool, declared: DeclaredFunctions) -> HostedListing:
    problem = declared.problem or declared.error or ""
    return HostedListing(id, str(tool.settings.get("label") or ""), declared.functions, problem)
