"""Calls of hosted tools that ran here, as parts of a result: one for the call, one for what it gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.hosted import HostedCall, HostedCodec, HostedResult
from dragoman.core.model import AnyPart, ExecutedCall, Foreign, HostedKind, Wire

ORIGIN = "dragoman"


class HostedCallResult(Struct, frozen=True):
    """What a hosted tool did that ran here. `sources`: url and title of what a search or a fetch found;
    `server`: the name of an MCP server."""

    id: str
    kind: HostedKind
    name: str
    arguments: dict[str, Any]
    content: str = ""
    failed: bool = False
    sources: tuple[dict[str, str], ...] = ()
    server: str = ""


def encode_call(call: HostedCall) -> Sequence[Wire]:
    fields = {"id": call.id, "kind": call.kind, "name": call.name, "arguments": call.arguments}
    return ({"type": "call", **fields, "server": call.server},)


def encode_result(call: HostedCall, result: HostedResult) -> Sequence[Wire]:
    sources = [{"url": source.url, "title": source.title} for source in result.sources if source.url]
    failed = result.error is not None
    return ({"type": "result", "id": call.id, "text": result.text, "failed": failed, "sources": sources},)


def decode_part(body: Wire) -> ExecutedCall | None:
    id = str(body.get("id"))
    if body.get("type") == "call":
        kind: Any = body.get("kind")
        return ExecutedCall(id, "call", kind, body["name"], body["arguments"], body.get("server") or "")
    return ExecutedCall(id, "result", text=body.get("text") or "", failed=body.get("failed") is True)


def words(body: Wire) -> str:
    """What a model reads that has no such tool now."""
    if body.get("type") == "call":
        return f"[{body['name']}: {body['arguments']}]"
    return f"[result: {body.get('text')}]"


def find_hosted_calls(parts: Iterable[AnyPart]) -> list[HostedCallResult]:
    """In the order of the calls; one without a result has not ended."""
    found: dict[str, HostedCallResult] = {}
    for part in parts:
        if isinstance(part, Foreign) and part.origin == ORIGIN:
            read_part(part.body, found)
    return list(found.values())


def read_part(body: Wire, found: dict[str, HostedCallResult]) -> HostedCallResult:
    id = body["id"]
    if body["type"] == "call":
        arguments = jsontext.decode_object(body["arguments"] or "{}") or {}
        call = HostedCallResult(id, body["kind"], body["name"], arguments, server=body["server"])
    else:
        began = found[id]
        call = HostedCallResult(
            id, began.kind, began.name, began.arguments, body["text"], body["failed"], tuple(body["sources"]),
            began.server,
        )  # fmt: skip
    found[id] = call
    return call


HOSTED_CODEC = HostedCodec(
    encode_call=encode_call,
    encode_result=encode_result,
    decode=decode_part,
    words=words,
    holds=frozenset({"web_search", "web_fetch", "tool_search", "mcp"}),
)
