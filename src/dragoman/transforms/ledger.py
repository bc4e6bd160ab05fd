"""What ties a request to its response: the names, kinds, ids and state of its tool calls.

`Ledger.prepare` gives the request as the upstream takes it; the restorer reads the same ledger on the
way back. What is needed beyond one exchange travels in ids.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.codec import ProtocolLimits
from dragoman.core.history import is_same, last_kept
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
from dragoman.core.seal import MAGIC
from dragoman.core.token_estimate import estimate_tokens
from dragoman.schemas.argument_checker import Checker
from dragoman.schemas.downgrade import can_be_strict, fit
from dragoman.transforms import arguments, breakpoints, call_ids
from dragoman.transforms.arguments import may_need_repair
from dragoman.transforms.content import joined, settle_part, without_summarised
from dragoman.transforms.pairing import CallOrder, MessageFacts, facts_of, pair
from dragoman.transforms.states import return_states
from dragoman.transforms.tools import Declared, Flattened, Names, flatten, names_for, recognise

_MOST_RESULTS = 8  # that are kept beside a message: targets, lists of names


class _Prepared(Struct, gc=False):
    """What the ledger made of a message. `calls` are with the client's id and the number in an invented one,
    `named` the ids of results with the name of the call. `made`: what was made of it in turn."""

    facts: MessageFacts
    calls: tuple[tuple[ToolCall, str, int], ...]
    named: tuple[tuple[str, str | None], ...]
    losses: tuple[Loss, ...]
    marks: int
    made: dict[Any, Any]
    state: _LedgerState | None = None  # after this message, where a request ended behind it


class _LedgerState(Struct, gc=False):
    """The ledger after `messages`, all of which came before."""

    messages: tuple[Message, ...]
    facts: tuple[MessageFacts, ...]
    order: CallOrder
    made: dict[int, dict[Any, Any]]
    client_ids: frozenset[str]
    used: dict[str, None]
    called: dict[str, str]
    calls: int
    marks: int
    losses: tuple[Loss, ...]


def _state_after(made: dict[Any, Any] | None, target: object) -> _LedgerState | None:
    prepared: _Prepared | None = made.get(target) if made is not None else None
    return prepared.state if prepared else None


class _Named(Struct, gc=False):
    """A message with the names that the upstream takes, and what was made of it."""

    message: Message
    made: dict[Any, Any]


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
        self._used: dict[str, None] = {}  # every tool name of the request
        self._called: dict[str, str] = {}  # call id -> name, for results without one

    def prepare(self, request: Request, summarise: bool) -> Request:
        """`request` as the upstream takes it: its names, ids, order, schemas, state and media."""
        flattened = flatten(request.tools, self.losses, self.upstream)
        self.declared = flattened.declared
        self._checkers, self._usual = flattened.checkers, flattened.usual
        self._used = flattened.names.copy()
        messages = request.messages
        if summarise:
            messages = tuple([without_summarised(message, self.losses) for message in messages])
        known = Past({}, request.past.target) if request.past else None  # messages as they are now
        order = CallOrder()
        if request.past and known:
            facts, order = self._fold(messages, request.past, known, flattened, summarise)
        else:
            facts = [self._message(message, flattened, summarise) for message in messages]
            order = order.after(facts)
        system = self._system(request.system) if self.is_foreign and request.system else request.system
        if self._marks > breakpoints.MOST and self.upstream.cache_breakpoints:
            own = sum([bool(text.cache) for text in system])
            facts = self._changed(facts, lambda m: breakpoints.latest(m, breakpoints.MOST - own, self.losses))
            order = CallOrder().after(facts)
        if self.client.text_pieces:
            facts = self._changed(facts, joined)
            order = CallOrder().after(facts)
        self._used.update(dict.fromkeys(request.tool_choice.names if request.tool_choice else ()))
        self._names = names_for(tuple(self._used), self.upstream)
        paired = pair(facts, order, self._legal, self.losses)
        self.prepared = replace(
            request,
            system=system,
            messages=tuple([self._named(each, known) for each in paired]) if self._names.changed else paired,
            tools=_fit(request.tools, self.losses, flattened, self._names, self.client.schema_field),
            tool_choice=self._choice(request.tool_choice, flattened),
            past=known,
        )
        return self.prepared

    def _legal(self, id: str) -> str:
        return call_ids.legal(id, self.upstream)

    def _changed(
        self, facts: list[MessageFacts], change: Callable[[list[Message]], list[Message]]
    ) -> list[MessageFacts]:
        same = {id(one.message): one for one in facts}
        messages = change([one.message for one in facts])
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

    def _system(self, system: tuple[Text, ...]) -> tuple[Text, ...]:
        settled: list[Text] = []
        for text in system:
            if text.cache:
                self._marks += 1
                text = breakpoints.settle(text, self.upstream.cache_breakpoints, self.losses)
            settled.append(text)
        return tuple(settled)

    def _fold(
        self, messages: tuple[Message, ...], past: Past, known: Past, flattened: Flattened, summarise: bool
    ) -> tuple[list[MessageFacts], CallOrder]:
        """The facts and the order of all messages; from the last state that is known, where there is one."""
        found = last_kept(messages, lambda message: _state_after(past.made.get(id(message)), past.target))
        state = found[1] if found and is_same(found[1].messages, messages[: found[0]]) else None
        facts: list[MessageFacts] = []
        order, start = CallOrder(), 0
        if state:
            facts, order, start = [*state.facts], state.order, len(state.messages)
            known.made.update(state.made)
            self.client_ids.update(state.client_ids)
            self._used.update(state.used)
            self._called.update(state.called)
            self.calls, self._marks = state.calls, state.marks
            self.losses.extend(state.losses)
        count = start
        reported: list[Loss] = [*state.losses] if state else []
        for message in messages[start:]:
            prepared = self._recalled(message, past, known, flattened, summarise)
            if prepared is None:
                break
            facts.append(prepared.facts)
            reported += prepared.losses
            count += 1
        order = order.after(facts[start:])
        if count > start:
            used = {call.name: None for one in facts[start:] for call in one.calls}
            used = {**state.used, **used} if state else used
            self._keep_state(messages[:count], past, known, facts, order, tuple(reported), used, start)
        for message in messages[count:]:
            prepared = self._recalled(message, past, known, flattened, summarise)
            facts.append(prepared.facts if prepared else self._message(message, flattened, summarise))
        return facts, order.after(facts[count:])

    def _keep_state(
        self,
        messages: tuple[Message, ...],
        past: Past,
        known: Past,
        facts: list[MessageFacts],
        order: CallOrder,
        losses: tuple[Loss, ...],
        used: dict[str, None],
        start: int,
    ) -> None:
        """Keep the state after `messages` beside the last of them; that of the last request is not needed."""
        earlier = past.made[id(messages[start - 1])].get(past.target) if start else None
        if earlier:
            earlier.state = None
        last: _Prepared | None = past.made[id(messages[-1])].get(past.target)
        if last is None:
            return  # another thread made room
        last.state = _LedgerState(
            messages,
            tuple(facts),
            order,
            known.made.copy(),
            frozenset(self.client_ids),
            used,
            self._called.copy(),
            self.calls,
            self._marks,
            losses,
        )

    def _recalled(
        self, message: Message, past: Past, known: Past, flattened: Flattened, summarise: bool
    ) -> _Prepared | None:
        """Like `_message`, for one that came before; of other messages it needs only the names of calls.

        None for a new one, and where the name of a call depends on the tools of the request.
        """
        made = past.made.get(id(message))
        if made is None:
            return None
        prepared: _Prepared | None = made.get(known.target)
        if prepared is None or (prepared.named and not self._still_named(prepared.named)):
            if any(type(part) is ToolCall and part.namespace for part in message.parts):
                return None
            prepared = self._learnt(message, flattened, summarise)
            if len(made) > _MOST_RESULTS:
                made.clear()
            made[known.target] = prepared
        else:
            for call, client_id, number in prepared.calls:
                self.client_ids.add(client_id)
                self.calls = max(self.calls + 1, number)
                self._used[call.name] = None
                if call.id:
                    self._called[call.id] = call.name
            self._marks += prepared.marks
            if prepared.losses:
                self.losses.extend(prepared.losses)
        known.made[id(prepared.facts.message)] = prepared.made
        return prepared

    def _still_named(self, named: tuple[tuple[str, str | None], ...]) -> bool:
        called = self._called
        for id, name in named:  # noqa: SIM110 - a generator takes twice the time
            if called.get(id) != name:
                return False
        return True

    def _learnt(self, message: Message, flattened: Flattened, summarise: bool) -> _Prepared:
        ids = [self._opened_id(part) for part in message.parts if type(part) is ToolResult]
        named = tuple([(id, self._called.get(id)) for id in ids])
        marks, losses, self.losses = self._marks, self.losses, Losses()
        facts = self._message(message, flattened, summarise)
        reported, self.losses = tuple(self.losses), losses
        losses.extend(reported)
        client_ids = [part.id for part in message.parts if type(part) is ToolCall]
        numbers = [call_ids.invented(call.id) or 0 for call in facts.calls]
        calls = tuple(zip(facts.calls, client_ids, numbers, strict=True))
        return _Prepared(facts, calls, named, reported, self._marks - marks, {})

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
        if opened is None and MAGIC in call.id:  # Kimi Code cuts ids to 64 characters
            why = "the client changed the id that carried state; the state is gone"
            self.losses.dropped(f"{call.where or call.name}.id", why, "call.id")
        if opened is not None:
            call = replace(call, id=opened.id, state=opened.state or call.state)
            if opened.reasoning or opened.opening:
                before[:] = call_ids.with_thoughts(before, opened, call.where)
        raw = arguments.unwrap_raw(call.arguments)
        if call.kind == "function" and raw[:1] == '"' and (once := arguments.decode_twice(raw)) is not raw:
            why = "the object was encoded twice"
            self.losses.changed(f"{call.where or call.name}.arguments", why, "call.arguments")
            raw = once
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

    def _named(self, message: Message, known: Past | None) -> Message:
        """`message` with the names that the upstream takes."""
        made = known.made.get(id(message)) if known else None
        if made is not None and known and (found := made.get(self._names)):
            known.made[id(found.message)] = found.made
            return found.message
        encode = self._names.encode
        parts: list[AnyPart] = []
        changed = False
        for part in message.parts:
            if isinstance(part, ToolCall | ToolResult) and (name := encode(part.name)) != part.name:
                part, changed = replace(part, name=name), True
            parts.append(part)
        if not changed:
            return message
        named = replace(message, parts=tuple(parts))
        if made is not None and known:
            if len(made) > _MOST_RESULTS:
                made.clear()
            made[self._names] = _Named(named, {})
        return named

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
