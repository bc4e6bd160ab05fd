"""The conversation <-> neutral messages.

System text is a message like any other, and a tool result is a message of its own: text only, so
that the media of results waits for a user message after the last result of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from dragoman.core.errors import WireError
from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Message, Request, Text, ToolResult, Wire
from dragoman.protocols.openai_chat import models
from dragoman.protocols.openai_chat.assistant import decode_assistant, encode_assistant, encode_texts
from dragoman.protocols.openai_chat.calls import decode_result, encode_result
from dragoman.protocols.openai_chat.parts import decode_content, encode_content
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME, QUIET_MESSAGE, is_native, leftovers, text_part


def decode_message(message: Any, where: str, losses: Losses) -> Message:
    fields = Fields(message, where, PROTOCOL_NAME)
    match role := fields.need("role", str):
        case "user" | "system" | "developer":
            parts = tuple(decode_content(fields, losses))
        case "assistant":
            parts = tuple(decode_assistant(fields, losses, echoed=True))
        case "tool" | "function":
            return Message("user", (decode_result(fields, role, losses),), where=where)
        case _:
            expected = "developer, system, user, assistant, tool or function"
            raise WireError(PROTOCOL_NAME, f"{where}.role", f"expected {expected}, got {role!r}")
    return Message(role, parts, where=where, extras=leftovers(fields, losses, QUIET_MESSAGE))


def encode_messages(request: Request, losses: Losses) -> list[Wire]:
    turns = _Turns(request.model, losses)
    thinks = request.settings.effort != "none" and request.settings.budget != 0
    leading = tuple(takewhile(_is_foreign_system, request.messages))
    front = [*request.system, *(part for message in leading for part in message.parts)]
    if front and (content := encode_texts(front, request.model, losses)):
        turns.add({"role": "system", "content": content})
    for message in request.messages[len(leading) :]:
        match message.role:
            case "user":
                turns.add_user(message)
            case "assistant":
                turns.flush()
                for wire in encode_assistant(message, request.model, thinks, losses):
                    turns.add(wire)
            case _:
                turns.flush()
                turns.add_system(message)
    turns.flush()
    return turns.messages


class _Turns:
    """Messages as they are written; `shown` is the media of results that waits for their end."""

    def __init__(self, model: str, losses: Losses) -> None:
        self.messages: list[Wire] = []
        self._model, self._losses = model, losses
        self._shown: list[Wire] = []

    def add(self, message: Wire) -> None:
        self.messages.append(message)

    def add_system(self, message: Message) -> None:
        native, extras = is_native(message), own(message.extras, PROTOCOL_NAME)
        content = encode_texts(message.parts, self._model, self._losses)
        if content or native:
            said = {"content": content} if content else {}
            self.add({"role": message.role if native else "system", **extras, **said})

    def add_user(self, message: Message) -> None:
        """Results first, each a message of its own, then everything else."""
        rest: list[AnyPart] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                wire, shown = encode_result(part, self._model, self._losses)
                self.add(wire)
                self._shown += shown
            else:
                rest.append(part)
        if rest or not message.parts:
            self._say(message, rest)

    def flush(self) -> None:
        if self._shown:
            self._answer_tools()
            self.add({"role": "user", "content": self._shown})
            self._shown = []

    def _say(self, message: Message, rest: Sequence[AnyPart]) -> None:
        content = encode_content(rest, self._losses) if rest else ""
        if self._shown:
            content = [*self._shown, *([text_part(content)] if isinstance(content, str) else content)]
            self._shown = []
        wire = {"role": "user", **own(message.extras, PROTOCOL_NAME)}
        if content:
            wire["content"] = content
        if not is_native(message):
            if not content:
                return
            self._answer_tools()
        self.add(wire)

    def _answer_tools(self) -> None:
        """Mistral lets nobody but the assistant speak after a tool."""
        if models.is_mistral(self._model) and self.messages and self.messages[-1]["role"] == "tool":
            self._losses.invented("assistant message", "this upstream wants one between result and user")
            self.add({"role": "assistant", "content": "OK"})


def _is_foreign_system(message: Message) -> bool:
    """System text that stood in front in another protocol; many templates take one such message."""
    return (
        message.role in ("system", "developer")
        and not is_native(message)
        and all(isinstance(part, Text) for part in message.parts)
    )
