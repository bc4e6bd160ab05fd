"""Context editing and compaction (beta): `context_management`, `compaction`, and what a reply says of them.

    clear_tool_uses_20250919, clear_thinking_20251015   edits of what the model sees
    compact_20260112                                    a summary where the input is long, then the reply
    compaction: {"type": "summarize"}                   the reply is the summary, and nothing else

A summary is a block `compaction`; a server ignores everything before it.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, rows
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Compaction, ContextEdit, Request, Wire
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME

TOOL_USES, THINKING, COMPACT = "clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"
# Defaults of the vendor's guide
_TRIGGER, _KEPT_USES, _KEPT_TURNS, _COMPACT_AT = 100_000, 3, 1, 150_000
_ALL = -1


def decode_edits(fields: Fields, losses: Losses) -> tuple[ContextEdit, ...] | None:
    """None where nothing is to be edited."""
    managed = fields.rest.pop("context_management", None)
    if managed is None:
        return None
    found: list[ContextEdit] = []
    for key in managed if is_object(managed) else ():
        if key != "edits":
            losses.dropped(
                f"context_management.{key}", f"Only {PROTOCOL_NAME} has this edit.", "field.unknown"
            )
    for i, wire in enumerate(rows(managed.get("edits")) if is_object(managed) else ()):
        where = f"context_management.edits[{i}]"
        match wire.get("type"):
            case "clear_tool_uses_20250919":
                found.append(_decode_tool_uses(wire, where))
            case "clear_thinking_20251015":
                found.append(ContextEdit("thinking", keep=_kept_turns(wire, where), where=where))
            case "compact_20260112":
                why = "A summary takes a request of its own. Only the gateway makes one."
                losses.dropped(where, why, "compaction")
            case _:
                losses.dropped(where, f"Only {PROTOCOL_NAME} has this edit.", "field.unknown")
    return tuple(found)


def _decode_tool_uses(wire: Wire, where: str) -> ContextEdit:
    trigger = wire.get("trigger")
    by_uses = is_object(trigger) and trigger.get("type") == "tool_uses"
    excluded = wire.get("exclude_tools")
    return ContextEdit(
        "tool_uses",
        tokens=0 if by_uses else _value(trigger, _TRIGGER, f"{where}.trigger"),
        uses=_value(trigger, 0, f"{where}.trigger") if by_uses else 0,
        keep=_value(wire.get("keep"), _KEPT_USES, f"{where}.keep"),
        at_least=_value(wire.get("clear_at_least"), 0, f"{where}.clear_at_least"),
        excluded=tuple([str(name) for name in excluded]) if is_array(excluded) else (),
        inputs=bool(wire.get("clear_tool_inputs")),
        where=where,
    )


def _kept_turns(wire: Wire, where: str) -> int:
    keep = wire.get("keep")
    if keep == "all" or (is_object(keep) and keep.get("type") == "all"):
        return _ALL
    return _value(keep, _KEPT_TURNS, f"{where}.keep")


def _value(setting: Any, default: int, where: str) -> int:
    if setting is None:
        return default
    value = setting.get("value") if is_object(setting) else None
    if type(value) is not int or value < 0:
        raise WireError(PROTOCOL_NAME, where, 'expected an object with a number as "value"')
    return value


def encode_edits(request: Request | None) -> Wire:
    """`context_management` of a reply: what was cleared for it."""
    if request is None or request.edits is None:
        return {}
    applied: list[Wire] = []
    for edit in request.edits:
        if edit.cleared and edit.kind == "tool_uses":
            applied.append({"type": TOOL_USES, "cleared_tool_uses": edit.cleared})
        elif edit.cleared:
            applied.append({"type": THINKING, "cleared_thinking_turns": edit.cleared})
        if edit.cleared:
            applied[-1]["cleared_input_tokens"] = edit.cleared_tokens
    return {"context_management": {"applied_edits": applied}}


def encode_compaction(summary: str) -> Wire:
    return {"type": "compaction", "content": summary}


def decode_compaction(request: Wire) -> Compaction | None:
    """What a request asks for; `context_management` stands in nearly every one of Claude Code."""
    compaction = request.get("compaction")
    if is_object(compaction):
        if compaction.get("type") != "summarize":
            raise WireError(PROTOCOL_NAME, "compaction.type", "expected summarize")
        return Compaction(instructions=_instructions(compaction))
    managed = request.get("context_management")
    for i, edit in enumerate(rows(managed.get("edits")) if is_object(managed) else ()):
        if edit.get("type") == COMPACT:
            where = f"context_management.edits[{i}].trigger"
            threshold = max(_value(edit.get("trigger"), _COMPACT_AT, where), 1)
            pause = edit.get("pause_after_compaction") is True
            return Compaction(threshold, _instructions(edit), pause)
    return None


def _instructions(wire: Wire) -> str:
    text = wire.get("instructions")
    return text if isinstance(text, str) else ""
