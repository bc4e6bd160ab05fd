"""What ties a request to its response: the names, kinds, ids and state of its tool calls.

`Ledger.prepare` gives the request as the upstream takes it; the restorer reads the same ledger on the
way back. What is needed beyond one exchange travels in ids.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.codec import ProtocolLimits
from dragoman.core.footprint import KeptResult
from dragoman.core.history import is_same
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import (
    AnyPart,
    AnyTool,
    Foreign,
    HostedTool,
    Media,
    Message,
    Past,
    Request,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    ToolResult,
    Usage,
)
from dragoman.core.schema_rules import SchemaRules
from dragoman.core.seal import MAGIC, tag
from dragoman.core.token_estimate import estimate_tokens
from dragoman.schemas.argument_checker import Checker
from dragoman.schemas.downgrade import can_be_strict, fit
from dragoman.transforms import arguments, breakpoints, call_ids
from dragoman.transforms.arguments import may_need_repair
from dragoman.transforms.content import joined, settle_part, without_summarised
from dragoman.transforms.pairing import (
    NO_CALLS,
    CallOrder,
    MessageFacts,
    ends_among_results,
    facts_of,
    gathered,
    pair,
)
from dragoman.transforms.states import return_states
from dragoman.transforms.tools import Declared, Flattened, Names, flatten, names_for, recognise

_KEPT = 400  # bytes of the objects that are kept of a message with a call, beside its texts


class _LedgerState(KeptResult):
    """The ledger after the messages of a client that came before; they are `facts` now.

    `names` are those of calls.
    """

    decoded: tuple[Message, ...]
    messages: tuple[Message, ...]
    facts: tuple[MessageFacts, ...]
    order: CallOrder
    client_ids: frozenset[str]
    names: dict[str, None]
    called: dict[str, str]
    passed: frozenset[str]
    calls: int
    marks: int
    losses: tuple[Loss, ...]


class _Renamed(KeptResult):
    """Messages with the names that the upstream takes."""

    messages: tuple[Message, ...]


class Ledger:
    """One exchange between a client and an upstream with these limits.

    `origin` is who will have made the state of the response; `own` is the upstream's protocol.
    """

    def __init__(
        self, client: ProtocolLimits, upstream: ProtocolLimits, origin: str, own: str, losses: Losses
    ) -> None:
        self.client, self.upstream, self.origin, self.own, self.losses = client, upstream, origin, own, losses
        self.is_foreign = own != client.protocol
        self.declared: Declared = {}
        self._checkers: dict[int, Checker | None] = {}
        self._usual: dict[str, bool] = {}
        self.client_ids: set[str] = set()  # of the calls so far, as the client sees them
        self.calls = 0  # of the conversation so far; an invented id counts on from here
        self.usage: Usage | None = None  # of the reply, once it has ended
        self.long_ids: list[str] = []  # of calls of the reply, which a client might cut
        self.called = 0  # complete calls of the reply
        self.prepared: Request | None = None
        self._estimate: int | None = None  # of the input tokens
        self._names = names_for((), upstream)
        self._marks = 0  # cache breakpoints
        self._used: dict[str, None] = {}  # the names of the calls
        self._called: dict[str, str] = {}  # call id -> name, for results without one
        self._passed: set[str] = set()  # ids that a gateway behind this one made, of whatever length

    def prepare(self, request: Request, summarise: bool) -> Request:
        """`request` as the upstream takes it: its names, ids, order, schemas, state and media."""
        flattened = flatten(request.tools, self.losses, self.upstream)
        self.declared = flattened.declared
        self._checkers, self._usual = flattened.checkers, flattened.usual
        messages = request.messages
        if summarise:
            messages = tuple([without_summarised(message, self.losses) for message in messages])
        state = self._known(request.past, messages, flattened, summarise) if request.past else None
        known = len(state.decoded) if state else 0
        facts = gathered([self._message(message, flattened, summarise) for message in messages[known:]])
        order = (state.order if state else NO_CALLS).after(facts)
        system = self._system(request) if self.is_foreign and request.system else request.system
        limits_marks = self._marks > breakpoints.MOST and self.upstream.cache_breakpoints
        if order.is_settled and not limits_marks and not self.client.text_pieces:
            paired = tuple([one.message for one in facts])
            paired = state.messages + paired if state else paired
        else:
            facts = given = [*state.facts, *facts] if state else facts
            if limits_marks:
                most = breakpoints.MOST - sum([bool(text.cache) for text in system])
                facts = self._changed(facts, lambda m: breakpoints.latest(m, most, self.losses))
            if self.client.text_pieces:
                facts = self._changed(facts, joined)
            if facts is not given:
                order = NO_CALLS.after(facts)
            paired = pair(facts, order, self._legal, self.losses)
        past = request.past.after(state.messages, state.made) if request.past and state else None
        names = {**flattened.names, **self._used}
        if request.tool_choice:
            names.update(dict.fromkeys(request.tool_choice.names))
        self._names = names_for(tuple(names), self.upstream)
        if self._names.changed:
            paired, past = self._renamed(paired, past)
        self.prepared = replace(
            request,
            system=system,
            messages=paired,
            tools=_fit(request.tools, self.losses, flattened, self._names, self.client.schema_field),
            tool_choice=self._choice(request.tool_choice, flattened),
            past=past,
        )
        return self.prepared

    def _legal(self, id: str) -> str:
        return id if id in self._passed else call_ids.legal(id, self.upstream)

    def _changed(
        self, facts: list[MessageFacts], change: Callable[[list[Message]], list[Message]]
    ) -> list[MessageFacts]:
        given = [one.message for one in facts]
        messages = change(given)
        if len(messages) == len(given) and all(map(is_, messages, given)):
            return facts
        same = {id(one.message): one for one in facts}
        return [same.get(id(message)) or facts_of(message, self._legal) for message in messages]

    def estimate(self) -> int:
        """Input tokens, roughly: clients show a meter before the upstream has counted."""
        if self._estimate is None:
            self._estimate = estimate_tokens(self.prepared) if self.prepared else 0
        return self._estimate

    def take_messages(self) -> list[Message]:
        """The messages as the upstream takes them, which are encoded by now."""
        if self.prepared is None:
            return []
        self.estimate()
        taken = list(self.prepared.messages)
        self.prepared = replace(self.prepared, messages=())
        return taken

    def demands_call(self) -> bool:
        """Whether the client insisted on a call."""
        choice = self.prepared.tool_choice if self.prepared else None
        return choice is not None and choice.mode == "required"

    def restored_name(self, call: ToolCall) -> tuple[ToolCall, AnyTool | None]:
        """`call` under its flat declared name, and the declaration behind it."""
        flat = self._names.decode(call.name)
        declared = self.declared.get((call.namespace, flat)) or self._unique(flat)
        if declared is None:
            meant = recognise(flat, [name for _, name in self.declared])
            if meant != flat:
                why = f"the model called {flat}; the declared tool is {meant}"
                self.losses.changed(call.where or "tool call", why, "call.name")
                flat = meant
                declared = self.declared.get((call.namespace, flat)) or self._unique(flat)
        return (call if flat == call.name else replace(call, name=flat)), declared

    def is_usual(self, call: ToolCall) -> bool:
        """Whether a whole call needs nothing but its id: a function is called by its declared name, without
        state, with an object as arguments that needs no repair. The other rules would leave it as it is."""
        usual = self._usual.get(call.name)
        if usual is None:
            usual = self._is_usual_tool(call.name)
        return (
            usual
            and call.kind == "function"
            and call.state is None
            and call.complete
            and not call.namespace
            and call.name == self._names.decode(call.name)
            and call.arguments.startswith("{")
            and jsontext.is_complete(call.arguments)
        )

    def _is_usual_tool(self, name: str) -> bool:
        tool = self.declared.get(("", name))
        if type(tool) is not ToolDeclaration:
            return False
        is_plain = tool.kind == "function" and tool.name == name and not tool.namespace
        self._usual[name] = is_plain and not may_need_repair(self.checker(tool), bool(tool.strict))
        return self._usual[name]

    def checker(self, tool: ToolDeclaration) -> Checker | None:
        """What checks the arguments of calls of a declared tool; made once for cached tools."""
        known = self._checkers
        if id(tool) not in known:
            known[id(tool)] = arguments.checker_of(tool.parameters)
        return known[id(tool)]

    def _unique(self, name: str) -> AnyTool | None:
        """A namespace that nobody declared says nothing where the name is unique."""
        alike = [tool for (_, known), tool in self.declared.items() if known == name]
        return alike[0] if len(alike) == 1 else None

    # Messages, each part looked at once

    def _system(self, request: Request) -> tuple[Text, ...]:
        """The system text with cache breakpoints as the upstream takes them."""
        marks, system = sum([1 for text in request.system if text.cache]), request.system
        if not marks:
            return system
        self._marks += marks
        taken, head = self.upstream.cache_breakpoints, request.head
        known = head.made.get((breakpoints.settle, taken)) if head else None
        if known is None or known[0] is not system:
            own = Losses()
            settled = [breakpoints.settle(text, taken, own) if text.cache else text for text in system]
            known = system, tuple(settled), tuple(own)
            if head:
                head.keep((breakpoints.settle, taken), known, _KEPT * len(system))
        self.losses.extend(known[2])
        return known[1]

    def _known(
        self, past: Past, messages: tuple[Message, ...], flattened: Flattened, summarise: bool
    ) -> _LedgerState | None:
        """The state after the messages that came before, which is from now on that of this ledger too.

        None where a stage changed one of them, and where the name of a call depends on the tools of the
        request.
        """
        if not is_same(past.messages, messages[: len(past.messages)]):
            return None
        state: _LedgerState | None = past.made.get(past.target)
        if state and state.decoded is not past.messages:
            state = state if is_same(state.decoded, past.messages[: len(state.decoded)]) else None
        if state:
            self.client_ids.update(state.client_ids)
            self._passed.update(state.passed)
            self._used, self._called = state.names.copy(), state.called.copy()
            self.calls, self._marks = state.calls, state.marks
        known = len(state.decoded) if state else 0
        new = past.messages[known:]
        if new and (count := ends_among_results(new)) < len(new):
            new = new[:count]
        if new:
            if any(type(part) is ToolCall and part.namespace for message in new for part in message.parts):
                self._used, self._called, self.calls, self._marks = {}, {}, 0, 0
                self.client_ids.clear()
                self._passed.clear()
                return None
            decoded = past.messages[: known + len(new)]
            state = self._learnt(state, decoded, new, flattened, summarise)
            past.keep(past.target, state)
        if state:
            state.used = past.footprint.used
            if state.losses:
                self.losses.extend(state.losses)
        return state

    def _learnt(
        self,
        before: _LedgerState | None,
        decoded: tuple[Message, ...],
        new: tuple[Message, ...],
        flattened: Flattened,
        summarise: bool,
    ) -> _LedgerState:
        losses, self.losses = self.losses, Losses()
        if before:
            self.losses.extend(before.losses)
        facts = gathered([self._message(message, flattened, summarise) for message in new])
        reported, self.losses = tuple(self.losses), losses
        return _LedgerState(
            decoded,
            (*(before.messages if before else ()), *[one.message for one in facts]),
            (*(before.facts if before else ()), *facts),
            (before.order if before else NO_CALLS).after(facts),
            frozenset(self.client_ids),
            self._used.copy(),
            self._called.copy(),
            frozenset(self._passed),
            self.calls,
            self._marks,
            reported,
            made=before.made.copy() if before else {},
            size=_KEPT * (max(len(decoded), len(self._called)) + len(reported)),
        )

    def _message(self, message: Message, flattened: Flattened, summarise: bool) -> MessageFacts:
        parts: list[AnyPart] = []
        calls: list[ToolCall] = []
        results: list[ToolResult] = []
        changed = stateful = settled = False
        for part in message.parts:
            kind = type(part)
            made: AnyPart | None = part
            if kind is ToolCall:
                made = self._call(part, flattened, parts)  # pyright: ignore[reportArgumentType] - by its type
                calls.append(made)
            elif kind is ToolResult:
                made = self._result(part, flattened, summarise)  # pyright: ignore[reportArgumentType] - by its type
                if type(made) is ToolResult:
                    results.append(made)
            elif kind is Media or kind is Foreign:
                made = settle_part(part, self.own, summarise, self.losses)
            if part.cache and made is not None and self.is_foreign:
                self._marks += 1
                made, settled = breakpoints.settle(made, self.upstream.cache_breakpoints, self.losses), True
            if made is not part:
                changed = True
            if made is not None:
                parts.append(made)
                if made.state is not None:
                    stateful = True
        if changed:  # thoughts with state may have come from inside an id, too
            message = replace(message, parts=tuple(parts))
        if stateful or changed:
            returned = return_states(message, self.origin, self.own, self.losses)
            settled, message = settled or returned is not message, returned
        if not calls and not results:
            return MessageFacts(message)
        if settled:
            return facts_of(message, self._legal)
        legal = not calls or all(call_ids.legal(call.id, self.upstream) == call.id for call in calls)
        return MessageFacts(message, tuple(calls), tuple(results), all(map(is_, results, parts)), legal)

    def _call(self, call: ToolCall, flattened: Flattened, before: list[AnyPart]) -> ToolCall:
        """The id as the upstream gave it; state and reasoning that travelled inside go to their places."""
        self.client_ids.add(call.id)
        opened = call_ids.unwrap(call.id, self.client)
        if call.state and not call.state.data and call.state.id and (opened is None or not opened.carries):
            opened = call_ids.unwrap(call.state.id, self.client) or opened
        if opened is None and MAGIC in call.id:  # Kimi Code cuts ids to 64 characters
            why = "the client changed the id that carried state; the state is gone"
            self.losses.dropped(f"{call.where or call.name}.id", why, "call.id")
        if opened is not None:
            state = opened.state
            if state and MAGIC in opened.id and state.origin in (self.origin, tag(self.origin)):
                self._passed.add(opened.id)
            call = replace(call, id=opened.id, state=(state if state and state.data else None) or call.state)
            if opened.reasoning or opened.opening:
                before[:] = call_ids.with_thoughts(before, opened, call.where)
        raw = arguments.unwrap_raw(call.arguments)
        if call.kind == "function" and raw[:1] == '"' and (once := arguments.decode_twice(raw)) is not raw:
            why = "the object was encoded twice"
            self.losses.changed(f"{call.where or call.name}.arguments", why, "call.arguments")
            raw = once
        elif call.kind == "function" and raw[:1] == "[" and arguments.is_empty_array(raw):
            where = f"{call.where or call.name}.arguments"
            self.losses.changed(where, arguments.EMPTY_ARRAY, "call.empty")
            raw = "{}"
        if raw is not call.arguments:
            call = replace(call, arguments=raw)
        if call.kind != "function" or call.namespace:
            call = flattened.call(call)
        self.calls = max(self.calls + 1, call_ids.invented(call.id) or 0)
        self._used[call.name] = None
        if call.id:
            self._called[call.id] = call.name
        return call

    def _opened_id(self, result: ToolResult) -> str:
        opened = call_ids.unwrap(result.call_id, self.client)
        return result.call_id if opened is None else opened.id

    def _result(self, result: ToolResult, flattened: Flattened, summarise: bool) -> AnyPart | None:
        id = self._opened_id(result)
        name = self._called.get(id) or result.name
        if id != result.call_id or name != result.name:
            result = replace(result, call_id=id, name=name)
        if result.kind != "function":
            result = flattened.result(result)
        if len(result.content) == 1 and type(result.content[0]) is Text:
            return result
        return settle_part(result, self.own, summarise, self.losses)

    def _renamed(
        self, messages: tuple[Message, ...], past: Past | None
    ) -> tuple[tuple[Message, ...], Past | None]:
        """`messages` with the names that the upstream takes; also those that came before."""
        known = past.messages if past else ()
        if past is None or not is_same(known, messages[: len(known)]):
            return tuple([self._named(message) for message in messages]), None
        found: _Renamed | None = past.made.get(self._names)
        if found is None or len(found.messages) < len(known):
            first, made = (found.messages, found.made.copy()) if found else ((), {})
            named = [self._named(message) for message in known[len(first) :]]
            found = _Renamed((*first, *named), made=made, size=_KEPT * len(known))
            past.keep(self._names, found)
        new = [self._named(message) for message in messages[len(known) :]]
        return (*found.messages, *new), past.after(found.messages, found.made)

    def _named(self, message: Message) -> Message:
        encode = self._names.encode
        parts: list[AnyPart] = []
        changed = False
        for part in message.parts:
            if isinstance(part, ToolCall | ToolResult) and (name := encode(part.name)) != part.name:
                part, changed = replace(part, name=name), True
            parts.append(part)
        return replace(message, parts=tuple(parts)) if changed else message

    def _choice(self, choice: ToolChoice | None, flattened: Flattened) -> ToolChoice | None:
        """The names as the upstream knows them; a list of all the tools is no restriction."""
        if choice is None or not choice.names:
            return choice
        if len(choice.names) > 1 and {tool.name for tool in flattened.tools} <= set(choice.names):
            return ToolChoice(choice.mode)
        flat = {tool.name or "": name for (_, name), tool in flattened.declared.items()}
        flat |= {name: name for _, name in flattened.declared}
        names = tuple(self._names.encode(flat.get(name, name)) for name in choice.names)
        return choice if names == choice.names else ToolChoice(choice.mode, names)


@cached_by_tools
def _fit(
    _tools: tuple[AnyTool, ...], losses: Losses, flattened: Flattened, names: Names, field: str
) -> tuple[AnyTool, ...]:
    """The flattened tools under their names and with schemas as the upstream takes them."""
    rules = flattened.limits.schema_rules
    return tuple([_fitted(tool, names.encode(tool.name), field, rules, losses) for tool in flattened.tools])


def _fitted(tool: AnyTool, name: str, field: str, rules: SchemaRules, losses: Losses) -> AnyTool:
    if isinstance(tool, HostedTool):
        return tool
    if tool.kind == "custom":
        return tool if name == tool.name else replace(tool, name=name)
    if tool.strict and rules.strict and not can_be_strict(tool.parameters):
        why = "strict is left off: its mode cannot express all that the schema allows"
        losses.changed(tool.where, why, "tool.strict")
        tool = replace(tool, strict=False)
    where = f"{tool.where}.{field}"
    parameters = fit(tool.parameters, rules, where, losses, strict=bool(tool.strict))
    if name == tool.name and parameters is tool.parameters:
        return tool
    return replace(tool, name=name, parameters=parameters)
