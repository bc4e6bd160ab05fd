"""Items that only this protocol understands, and the words that others may say instead.

In the history of a conversation they tell what hosted tools did, which another model can read; in a
reply they are bookkeeping beside the text that the model made of them.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Foreign, Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME, printed

HOISTED = frozenset({"additional_tools", "tool_search_output"})  # their tools are declared with the others
_WHY = {
    "item_reference": "it names an item that only the server holds, which is not in this request",
    "compaction": "it stands for earlier turns, which only their server can read",
}


def decode_foreign(item: Wire, kind: str, where: str, losses: Losses, history: bool) -> Foreign:
    words = _told(kind, item, where) if history else ""
    if words:
        losses.changed(
            where, f"an item of type {kind} is only understood by {PROTOCOL_NAME}: it is told in words"
        )
    elif kind not in HOISTED:
        losses.dropped(where, _WHY.get(kind, f"an item of type {kind} is only understood by {PROTOCOL_NAME}"))
    return Foreign(PROTOCOL_NAME, item, words, where=where)


def _told(kind: str, item: Wire, where: str) -> str:
    """What `item` says, in words; nothing where nobody else could use it."""
    match kind:
        case "web_search_call":
            action = _object(item, "action")
            asked = {key: action[key] for key in ("query", "queries", "url") if action.get(key)}
            return f"[web_search: {printed(asked, where)}]" if asked else ""
        case "file_search_call":
            found = [_text(result, "text") for result in _objects(item.get("results"))]
            return "\n".join([f"[file_search: {printed(item.get('queries'), where)}]", *filter(None, found)])
        case "code_interpreter_call":
            logs = [_text(output, "logs") for output in _objects(item.get("outputs"))]
            return _ran(_text(item, "code"), [log for log in logs if log])
        case "mcp_call":
            failed = f"failed: {printed(item['error'], where)}" if item.get("error") else ""
            return f"[{_text(item, 'name')}: {_text(item, 'arguments')}]\n{_text(item, 'output') or failed}"
        case "shell_call":
            return f"[shell: {printed(_object(item, 'action').get('commands'), where)}]"
        case "shell_call_output":
            outputs = _objects(item.get("output"))
            return f"[shell result: {''.join(_text(o, 'stdout') + _text(o, 'stderr') for o in outputs)}]"
        case "apply_patch_call":
            return f"[apply_patch: {printed(item.get('operation'), where)}]"
        case "apply_patch_call_output":
            return f"[apply_patch result: {_text(item, 'status')} {_text(item, 'output')}]"
        case _:
            return ""


def _ran(code: str, logs: list[str]) -> str:
    output = "Output:\n```\n" + "\n".join(logs) + "\n```" if logs else ""
    return f"```\n{code}\n```\n{output}".strip() if code else output


def _object(item: Wire, key: str) -> Wire:
    value = item.get(key)
    return value if is_object(value) else {}


def _objects(value: Any) -> list[Wire]:
    return [item for item in value if is_object(item)] if is_array(value) else []


def _text(item: Wire, key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""
