"""What ties a request to its response: the names, kinds, ids and state of its tool calls.

`prepare_tools` gives the tools as the upstream takes them; the restorer reads the same ledger on the way
back. What is needed beyond one exchange travels in ids.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.codec import ProtocolLimits
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyTool,
    HostedTool,
    Message,
    Request,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    Usage,
)
from dragoman.core.schema_rules import SchemaRules
from dragoman.core.token_estimate import TallyRun, estimate_tokens
from dragoman.schemas.argument_checker import Checker
from dragoman.schemas.downgrade import can_be_strict, fit
from dragoman.transforms import arguments
from dragoman.transforms.arguments import may_need_repair
from dragoman.transforms.identify import IdentifyRun
from dragoman.transforms.tools import Declared, Flattened, Names, flatten, names_for, recognise


class PreparedTools(Struct, frozen=True, eq=False):
    """`tools` are those of a request under names and with schemas as the upstream takes them, and `fitted`
    what was lost by that; `names` are all of the conversation."""

    flattened: Flattened
    names: Names
    tools: tuple[AnyTool, ...]
    fitted: Losses


class Ledger:
    """One exchange between a client and an upstream with these limits.

    `origin` is who will have made the state of the response; `own` is the upstream's protocol.
    """

    def __init__(
        self, client: ProtocolLimits, upstream: ProtocolLimits, origin: str, own: str, losses: Losses
    ) -> None:
        self.client, self.upstream, self.origin, self.own, self.losses = client, upstream, origin, own, losses
        self.is_foreign = own != client.protocol
        self._tools = _no_tools(upstream)
        self._identified: IdentifyRun | None = None
        self.calls = 0  # of the conversation so far; an invented id counts on from here
        self.usage: Usage | None = None  # of the reply, once it has ended
        self.long_ids: list[str] = []  # of calls of the reply, which a client might cut
        self.called = 0  # complete calls of the reply
        self.prepared: Request | None = None  # without its messages
        self.tally: TallyRun | None = None  # of these
        self._estimate: Usage | None = None

    def adopt(self, prepared: Request, tools: PreparedTools, identified: IdentifyRun) -> None:
        """What ties the response to its request."""
        self.prepared, self._tools = prepared, tools
        self._identified, self.calls = identified, identified.calls

    @property
    def declared(self) -> Declared:
        """The tools as the upstream knows them, and what the client declared."""
        return self._tools.flattened.declared

    @cached_property
    def client_ids(self) -> set[str]:
        """Of the calls so far, as the client sees them."""
        run = self._identified
        return run.ids.union(run.before.client_ids) if run else set()

    def estimate(self) -> Usage | None:
        """Input tokens, roughly: clients show a meter before the upstream has counted."""
        if self._estimate is None and self.prepared:
            self._estimate = Usage(estimate_tokens(self.prepared, self.tally))
        return self._estimate

    def take_messages(self) -> list[Message]:
        """The messages as the upstream takes them, which are encoded by now."""
        return self.tally.take_messages() if self.tally else []

    def demands_call(self) -> bool:
        """Whether the client insisted on a call."""
        choice = self.prepared.tool_choice if self.prepared else None
        return choice is not None and choice.mode == "required"

    def restored_name(self, call: ToolCall) -> tuple[ToolCall, AnyTool | None]:
        """`call` under its flat declared name, and the declaration behind it."""
        flat, known = self._tools.names.decode(call.name), self._tools.flattened.declared
        declared = known.get((call.namespace, flat)) or _unique(known, flat)
        if declared is None:
            meant = recognise(flat, [name for _, name in known])
            if meant != flat:
                why = f"The model called {flat}. The declared tool is {meant}."
                self.losses.changed(call.where or "tool call", why, "call.name")
                flat = meant
                declared = known.get((call.namespace, flat)) or _unique(known, flat)
        return (call if flat == call.name else replace(call, name=flat)), declared

    def is_usual(self, call: ToolCall) -> bool:
        """Whether a whole call needs nothing but its id: a function is called by its declared name, without
        state, with an object as arguments that needs no repair. The other rules would leave it as it is."""
        usual = self._tools.flattened.usual.get(call.name)
        if usual is None:
            usual = self._is_usual_tool(call.name)
        return (
            usual
            and call.kind == "function"
            and call.state is None
            and call.complete
            and not call.namespace
            and call.name == self._tools.names.decode(call.name)
            and call.arguments.startswith("{")
            and jsontext.is_complete(call.arguments)
        )

    def _is_usual_tool(self, name: str) -> bool:
        flattened = self._tools.flattened
        tool = flattened.declared.get(("", name))
        if type(tool) is not ToolDeclaration:
            return False
        is_plain = tool.kind == "function" and tool.name == name and not tool.namespace
        usual = is_plain and not may_need_repair(self.checker(tool), bool(tool.strict))
        flattened.usual[name] = usual
        return usual

    def checker(self, tool: ToolDeclaration) -> Checker | None:
        """What checks the arguments of calls of a declared tool; made once for cached tools."""
        known = self._tools.flattened.checkers
        if id(tool) not in known:
            known[id(tool)] = arguments.checker_of(tool.parameters)
        return known[id(tool)]


def _unique(declared: Declared, name: str) -> AnyTool | None:
    """A namespace that nobody declared says nothing where the name is unique."""
    alike = [tool for (_, known), tool in declared.items() if known == name]
    return alike[0] if len(alike) == 1 else None


@cached_by_tools
def prepare_tools(
    tools: tuple[AnyTool, ...], losses: Losses, limits: ProtocolLimits, used: tuple[str, ...], field: str
) -> PreparedTools:
    """`used` are names that the conversation calls, and `field` is where the client declares a schema."""
    fitted = Losses()
    flattened = flatten(tools, losses, limits)
    names = names_for(tuple(dict.fromkeys((*flattened.names, *used))), limits)
    return PreparedTools(flattened, names, _fit(tools, fitted, flattened, names, field), fitted)


@lru_cache(256)
def _no_tools(limits: ProtocolLimits) -> PreparedTools:
    return prepare_tools((), Losses(), limits, (), "")


def fit_head(head: Request, prepared: PreparedTools) -> Request:
    """`head` without messages, with its tools as the upstream takes them."""
    choice = head.tool_choice
    if choice and choice.names:
        choice = _choice(choice, prepared.flattened, prepared.names)
    return replace(head, messages=(), tools=prepared.tools, tool_choice=choice)


def _choice(choice: ToolChoice, flattened: Flattened, names: Names) -> ToolChoice:
    """The names as the upstream knows them; a list of all the tools is no restriction."""
    if len(choice.names) > 1 and {tool.name for tool in flattened.tools} <= set(choice.names):
        return ToolChoice(choice.mode)
    flat = {tool.name or "": name for (_, name), tool in flattened.declared.items()}
    flat |= {name: name for _, name in flattened.declared}
    chosen = tuple([names.encode(flat.get(name, name)) for name in choice.names])
    return choice if chosen == choice.names else ToolChoice(choice.mode, chosen)


@cached_by_tools
def _fit(
    _tools: tuple[AnyTool, ...], losses: Losses, flattened: Flattened, names: Names, field: str
) -> tuple[AnyTool, ...]:
    """The flattened tools under their names and with schemas as the upstream takes them."""
    rules = flattened.limits.schema_rules
    fitted: list[AnyTool] = []
    for tool in flattened.tools:
        fitted.append(_fitted(tool, names.encode(tool.name), field, rules, losses))
    return tuple(fitted)


def _fitted(tool: AnyTool, name: str, field: str, rules: SchemaRules, losses: Losses) -> AnyTool:
    if isinstance(tool, HostedTool):
        return tool
    if tool.kind == "custom":
        return tool if name == tool.name else replace(tool, name=name)
    if tool.strict and rules.strict and not can_be_strict(tool.parameters):
        why = "Strict mode cannot express all that the schema allows, so it is off."
        losses.changed(tool.where, why, "tool.strict")
        tool = replace(tool, strict=False)
    where = f"{tool.where}.{field}"
    parameters = fit(tool.parameters, rules, where, losses, strict=bool(tool.strict))
    if name == tool.name and parameters is tool.parameters:
        return tool
    return replace(tool, name=name, parameters=parameters)
