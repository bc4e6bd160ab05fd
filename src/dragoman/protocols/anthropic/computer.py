"""Computer use: the tool as a function for other models, and its calls.

A `computer_*` tool has a name, and its calls are those of a function. A `computer_toolset_*` has none: its
calls carry the name of an action and `toolset_name`. To other models both are one function with the action
among its arguments. A tool says how large the display is; a toolset leaves that to the client.
"""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext
from dragoman.core.fields import own
from dragoman.core.jsontext import is_object
from dragoman.core.model import ToolCall, Wire
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME

NAME = "computer"
_POINT: Wire = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_FIRST = (
    "screenshot", "cursor_position", "mouse_move", "left_click", "left_click_drag", "right_click",
    "middle_click", "double_click", "key", "type",
)  # fmt: skip
_SECOND = ("left_mouse_down", "left_mouse_up", "triple_click", "scroll", "hold_key", "wait")
_PROPERTIES: Wire = {
    "coordinate": {**_POINT, "description": "[x, y] in pixels, from the upper left corner"},
    "start_coordinate": {**_POINT, "description": "Where left_click_drag begins"},
    "text": {"type": "string", "description": "What to type, or the keys to press or hold: ctrl+s"},
}
_LATER: Wire = {
    "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
    "scroll_amount": {"type": "integer", "description": "Clicks of the wheel"},
    "duration": {"type": "number", "description": "Seconds, of hold_key and wait"},
}
_REGION: Wire = {
    "region": {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 4,
        "maxItems": 4,
        "description": "[x0, y0, x1, y1] of zoom",
    }
}


def as_function(declared: Wire) -> tuple[str, Wire]:
    """The description and the schema that tell other models what this version of the tool does."""
    version = str(declared.get("type"))[-8:]
    is_toolset = is_computer_toolset(declared)
    zooms = is_toolset or declared.get("enable_zoom") is True
    actions = [*_FIRST, *(_SECOND if version > "20241022" else ()), *(["zoom"] if zooms else ())]
    properties = {**_PROPERTIES, **(_LATER if version > "20241022" else {}), **(_REGION if zooms else {})}
    if is_toolset:
        properties["repeat"] = {"type": "integer", "description": "How often to press the key"}
        actions = [action for action in actions if _is_enabled(declared, action)]
    action: Wire = {"type": "string", "enum": actions}
    schema: Wire = {
        "type": "object",
        "properties": {"action": action, **properties},
        "required": ["action"],
    }
    return f"{_ABOUT}{_size(declared)}", schema


_ABOUT = (
    "Uses the user's computer with mouse and keyboard. Take a screenshot first, and another one after each "
    "step to see what it did."
)


def _size(declared: Wire) -> str:
    width, height = declared.get("display_width_px"), declared.get("display_height_px")
    return f" The screen is {width} x {height} pixels." if width and height else ""


def _is_enabled(declared: Wire, action: str) -> bool:
    configs = declared.get("configs")
    config = configs.get(action) if is_object(configs) else None
    return not is_object(config) or config.get("enabled") is not False


def is_computer_toolset(declared: Wire) -> bool:
    return str(declared.get("type")).startswith("computer_toolset_")


def decode_action(name: str, arguments: Any) -> str:
    """The arguments of the function, for a call of a toolset in the conversation."""
    return jsontext.dumps({"action": name, **(arguments if is_object(arguments) else {})})


def encode_action(call: ToolCall) -> Wire:
    """The block of a call of a toolset."""
    given = jsontext.decode_object(call.arguments) or {}
    action = given.pop("action", None)
    name = action if isinstance(action, str) and action else call.name
    block: Wire = {"type": "tool_use", "id": call.id, "name": name, "input": given, "toolset_name": NAME}
    return block | (own(call.extras, PROTOCOL_NAME) or {"caller": {"type": "direct"}})
