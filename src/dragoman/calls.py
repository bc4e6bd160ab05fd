"""Tool calls without an exchange: read them from a reply, answer them, translate declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.errors import ConfigError, UpstreamError
from dragoman.core.fields import read_body
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolCall, ToolDeclaration, ToolResult, Wire
from dragoman.pipeline import Pipeline, TranslationPlan
from dragoman.profiles import profile_of
from dragoman.protocols import codec as find_codec
from dragoman.protocols import protocol as find_protocol


def parse_tool_calls(response: Wire | bytes | str, protocol: str) -> list[ToolCall]:
    """The complete tool calls of a whole reply, in order; `arguments` is JSON text.

    A reply that is an error raises UpstreamError.
    """
    codec = find_codec(protocol)
    wire = read_body(response, protocol)
    failure = codec.decode_error(wire, 200)
    if failure:
        raise UpstreamError(failure)
    parts = codec.decode_response(wire, Losses()).parts
    return [part for part in parts if isinstance(part, ToolCall) and part.complete]


def build_tool_results(
    calls: Iterable[ToolCall], outputs: Iterable[Any] | Mapping[str, Any], protocol: str
) -> list[Wire]:
    """What to append to the conversation to answer `calls`, as messages (items, contents) of `protocol`.

    `outputs` is in the order of the calls, or keyed by call id. An output is text, any JSON value
    (sent as JSON text), an exception (sent as a failed result), or a ToolResult, which answers the call whose
    id it names. An id that no call has is refused.
    """
    codec, calls = find_codec(protocol), list(calls)
    listed = _in_order(calls, outputs)
    if len(listed) != len(calls):
        raise ConfigError(f"{len(calls)} calls need as many outputs, got {len(listed)}")
    if not calls:
        return []
    results = tuple(_result(call, output) for call, output in zip(calls, listed, strict=True))
    body = codec.encode_request(Request("", (Message("user", results),)), Losses())
    return body[codec.turns]


def translate_tools(tools: list[Any], source: str, target: str) -> list[Wire]:
    """Declarations alone, from one protocol to another; an `Exchange` also reports what is lost.

    No conversation will load deferred tools here, so another protocol gets them all.
    """
    decoder, _ = find_codec(source), find_codec(target)
    request = decoder.decode_request({"model": "", decoder.turns: [], "tools": list(tools)}, Losses())
    if source != target:
        loaded = [
            replace(tool, deferred=False) if isinstance(tool, ToolDeclaration) else tool
            for tool in request.tools
        ]
        request = replace(request, tools=tuple(loaded))
    profile = replace(profile_of("", "", target), max_tools=0)  # no request is sent, so no limit applies
    plan = TranslationPlan(decoder.client_limits, find_protocol(target), profile=profile)
    _, body = Pipeline(plan, Losses()).encode_request(request)
    return body.get("tools", [])


def _in_order(calls: list[ToolCall], outputs: Iterable[Any] | Mapping[str, Any]) -> list[Any]:
    """One output for each call, in the order of the calls."""
    if not isinstance(outputs, Mapping):
        listed = list(outputs)
        if not listed or not all(isinstance(output, ToolResult) and output.call_id for output in listed):
            return listed
        outputs = {output.call_id: output for output in listed}
        if len(outputs) != len(listed):
            raise ConfigError("Two outputs answer the same call.")
    for call in calls:
        if not call.id:
            raise ConfigError(
                f"The call of {call.name} has no id. Give the outputs in the order of the calls."
            )
        if call.id not in outputs:
            raise ConfigError(f"There is no output for the call {call.id} of {call.name}.")
    if unknown := outputs.keys() - {call.id for call in calls}:
        raise ConfigError(f"No call has the id {min(unknown)!r}.")
    return [outputs[call.id] for call in calls]


def _result(call: ToolCall, output: Any) -> ToolResult:
    match output:
        case ToolResult():
            return replace(output, call_id=call.id, name=call.name, kind=call.kind)
        case str():
            text, failed = output, False
        case BaseException():
            text, failed = f"{type(output).__name__}: {output}", True
        case _:
            text, failed = _print(call, output), False
    return ToolResult(call.id, call.name, (Text(text),) if text else (), failed, call.kind)


def _print(call: ToolCall, output: Any) -> str:
    try:
        return jsontext.dumps(output)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the output for {call.name} is no text and no JSON value: {error}") from None
