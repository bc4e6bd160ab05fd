"""Context editing for upstreams that have none: old results and thinking are cleared in what they see.

The client's history stays as it is, so every turn is edited anew; the reply says what was cleared.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    ContextEdit,
    Foreign,
    Message,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolResult,
    summary_message,
)
from dragoman.core.token_estimate import estimate_tokens

_CLEARED = "[Old tool result content cleared]"


def edit_context(request: Request, losses: Losses) -> Request:
    """`request` after its edits, in their order; `edits` then say what each of them cleared."""
    request = _after_compaction(request)
    done: list[ContextEdit] = []
    for edit in request.edits or ():
        clear = _clear_tool_uses if edit.kind == "tool_uses" else _clear_thinking
        edited, cleared = clear(request, edit)
        if cleared:
            tokens = estimate_tokens(request) - estimate_tokens(edited)
            if tokens >= edit.at_least:
                why = f"The upstream edits no context. The gateway cleared {cleared} items, {tokens} tokens."
                losses.emulated(edit.where, why, "context.edit")
                request, edit = edited, replace(edit, cleared=cleared, cleared_tokens=max(tokens, 0))
        done.append(edit)
    return replace(request, edits=tuple(done))


def _clear_tool_uses(request: Request, edit: ContextEdit) -> tuple[Request, int]:
    """The results of all but the newest uses become a note; on request their inputs go too."""
    parts = [part for message in request.messages for part in message.parts]
    answered = {part.call_id for part in parts if isinstance(part, ToolResult)}
    uses = [part for part in parts if isinstance(part, ToolCall) and part.id in answered]
    if edit.uses:
        due = len(uses) > edit.uses
    else:
        due = estimate_tokens(request) > edit.tokens
    old = uses[: max(len(uses) - edit.keep, 0)] if due else []
    ids = {call.id for call in old if call.name not in edit.excluded}

    def cleared(part: AnyPart) -> AnyPart:
        if isinstance(part, ToolResult) and part.call_id in ids:
            return replace(part, content=(Text(_CLEARED, where=part.where),), extras=None)
        if isinstance(part, ToolCall) and edit.inputs and part.id in ids:
            return replace(part, arguments="{}", extras=None)
        return part

    return _with_parts(request, cleared), len(ids)


def _clear_thinking(request: Request, edit: ContextEdit) -> tuple[Request, int]:
    """The thinking of all but the newest turns is left out."""
    turns = [
        message
        for message in request.messages
        if message.role == "assistant" and any(isinstance(part, Reasoning) for part in message.parts)
    ]
    old = turns[: max(len(turns) - edit.keep, 0)] if edit.keep >= 0 else []
    places = {id(part) for message in old for part in message.parts if isinstance(part, Reasoning)}
    return _with_parts(request, lambda part: None if id(part) in places else part), len(old)


def _with_parts(request: Request, change: Callable[[AnyPart], AnyPart | None]) -> Request:
    messages: list[Message] = []
    for message in request.messages:
        parts = tuple([made for part in message.parts if (made := change(part)) is not None])
        if parts or not message.parts:
            messages.append(message if parts == message.parts else replace(message, parts=parts))
    return replace(request, messages=tuple(messages))


def _after_compaction(request: Request) -> Request:
    """Anthropic ignores what stands before a compaction block; others get its summary as the user's text."""
    for place in range(len(request.messages) - 1, -1, -1):
        message = request.messages[place]
        for at, part in enumerate(message.parts):
            if isinstance(part, Foreign) and part.body.get("type") == "compaction" and part.text:
                summary = Message("user", (Text(summary_message(part.text), where=part.where),))
                rest = message.parts[at + 1 :]
                after = (replace(message, parts=rest),) if rest else ()
                return replace(request, messages=(summary, *after, *request.messages[place + 1 :]))
    return request
