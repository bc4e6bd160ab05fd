"""Computer use: the tool as a function for other models, its calls and the screenshots that answer them.

`computer_use_preview` calls one `action` at a time, `computer` a list of `actions`. Both are answered with a
screenshot.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire

_NUMBER: Wire = {"type": "integer"}
_KEYS: Wire = {"type": "array", "items": {"type": "string"}}
_PLACE: Wire = {"type": "object", "properties": {"x": _NUMBER, "y": _NUMBER}, "required": ["x", "y"]}
_TYPES = ["click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"]
_ACTION: Wire = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": _TYPES},
        "x": {**_NUMBER, "description": "Pixels from the left, of click, double_click, move and scroll"},
        "y": {**_NUMBER, "description": "Pixels from the top"},
        "button": {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
        "scroll_x": {**_NUMBER, "description": "Pixels to scroll to the right"},
        "scroll_y": {**_NUMBER, "description": "Pixels to scroll down"},
        "keys": {**_KEYS, "description": "What keypress presses together, or what a click holds"},
        "text": {"type": "string", "description": "What type types"},
        "path": {"type": "array", "items": _PLACE, "description": "Of drag"},
    },
    "required": ["type"],
}
_ABOUT = (
    "Uses the user's computer with mouse and keyboard. You get a screenshot after each call; begin with "
    "the action screenshot."
)


def as_function(declared: Wire) -> tuple[str, Wire]:
    """The description and the schema that tell other models what this version of the tool does."""
    width, height = declared.get("display_width"), declared.get("display_height")
    size = f" The screen is {width} x {height} pixels." if width and height else ""
    place = declared.get("environment")
    where = f" It is a {place} environment." if isinstance(place, str) and place else ""
    if declared.get("type") == "computer_use_preview":
        field: Wire = {"action": _ACTION}
    else:
        field = {"actions": {"type": "array", "items": _ACTION, "description": "Done in this order"}}
    return f"{_ABOUT}{size}{where}", {"type": "object", "properties": field, "required": [*field]}


def actions_of(arguments: Wire) -> Wire:
    """The fields of a `computer_call`; empty where the arguments hold no action. A model may leave the outer
    object out."""
    match arguments:
        case {"action": action} if is_object(action):
            return {"action": action}
        case {"actions": actions} if is_array(actions):
            return {"actions": actions}
        case {"type": str(kind)} if kind in _TYPES:
            return {"action": arguments}
        case _:
            return {}


def picture_of(output: Any) -> list[Any]:
    """A screenshot as a part of content."""
    if not is_object(output):
        return []
    source = {key: output[key] for key in ("image_url", "file_id") if output.get(key)}
    return [{"type": "input_image", **source}] if source else []


def screenshot_of(content: Any) -> Wire:
    """The reverse; empty where the content holds no picture."""
    for part in content if is_array(content) else ():
        if is_object(part) and part.get("type") == "input_image":
            source = {key: part[key] for key in ("image_url", "file_id") if part.get(key)}
            return {"type": "computer_screenshot", **source}
    return {}
