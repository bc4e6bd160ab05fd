"""Hosted tools <-> neutral ones.

OpenAI's web search is not a tool on Chat but a setting of the request, `web_search_options`; other servers
declare hosted tools in `tools` with types of their own.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import Fields
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import HostedKind, HostedTool, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.protocols.openai import undated
from dragoman.protocols.openai_chat.wire import PROTOCOL_NAME

_HOSTED: dict[str, HostedKind] = {
    "openrouter:web_search": "web_search",
    "web_search": "web_search",
    "web_search_preview": "web_search",
    "browser_search": "web_search",
    "code_interpreter": "code_execution",
}
# parameters of openrouter:web_search -> neutral settings
_PARAMETERS = {
    "allowed_domains": "allowed_domains",
    "excluded_domains": "blocked_domains",
    "max_uses": "max_uses",
    "search_context_size": "context_size",
    "user_location": "location",
}
_OPTIONS = frozenset({"search_context_size", "user_location"})


def decode_hosted(fields: Fields, kind: str) -> HostedTool:
    """A declaration in `tools`; it is kept whole in the extras."""
    name, parameters = fields.rest.get("name"), fields.rest.get("parameters")
    given = parameters if is_object(parameters) else {}
    known = _HOSTED.get(undated(kind), "other")
    settings = _decode_parameters(given) if known == "web_search" else {}
    return HostedTool(
        known,
        name if type(name) is str else "",
        settings,
        where=fields.where,
        extras={PROTOCOL_NAME: fields.rest},
    )


def _decode_parameters(given: Wire) -> dict[str, Any]:
    """One that nobody else knows keeps its name, under which it is reported."""
    settings = {_PARAMETERS.get(key, f"parameters.{key}"): value for key, value in given.items() if value}
    if is_object(place := settings.get("location")):
        settings["location"] = {key: value for key, value in place.items() if key != "type"}
    return settings


def decode_search_options(options: Wire) -> HostedTool:
    settings: dict[str, Any] = {key: value for key, value in options.items() if key not in _OPTIONS}
    if size := options.get("search_context_size"):
        settings["context_size"] = size
    location = options.get("user_location")
    place = location.get("approximate") if is_object(location) else None
    if is_object(place):
        settings["location"] = {key: value for key, value in place.items() if value}
    for key, value in location.items() if is_object(location) else ():
        if key not in ("type", "approximate"):
            settings[f"user_location.{key}"] = value
    extras = {PROTOCOL_NAME: {"web_search_options": options}}
    return HostedTool("web_search", "", settings, where="web_search_options", extras=extras)


def encode_hosted(tool: HostedTool, extras: Wire, wire: Wire, profile: ModelProfile, losses: Losses) -> Wire:
    """The request fields that declare `tool`; `wire` holds those written so far."""
    if "web_search_options" in extras:
        return extras
    if extras:
        return {"tools": [*wire.get("tools", ()), extras]}
    if tool.kind != "web_search":
        losses.dropped(tool.where, f"Chat has no hosted {tool.kind} tool.", f"hosted.{tool.kind}")
        return {}
    if "web_search" not in (profile.hosted_tools or ()):  # other servers refuse or ignore the field
        losses.dropped(tool.where, "On Chat only the search models take web search.", "hosted.web_search")
        return {}
    return {"web_search_options": _encode_search_options(tool, losses)}


def _encode_search_options(tool: HostedTool, losses: Losses) -> Wire:
    options: Wire = {}
    for key, value in tool.settings.items():
        match key:
            case "context_size":
                options["search_context_size"] = value
            case "location":
                options["user_location"] = {"type": "approximate", "approximate": value}
            case _ if value:
                why = "Chat's web search has no such setting."
                losses.dropped(f"{tool.where}.{key}", why, "hosted.setting")
            case _:
                pass
    return options
