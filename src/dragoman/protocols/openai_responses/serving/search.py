"""`POST /v1/alpha/search`: Codex searches by itself, outside of a response.

Its model sees this as `web.run` (openai/codex 343074d4). The commands stand side by side, each a list. What
was found is named `turn0search1` in the text of the reply, and later commands refer to it by that name.
"""

from __future__ import annotations

from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.fields import describe, rows
from dragoman.core.hosted import FoundSource
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.model import Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME
from dragoman.serving.search import SearchCommand, SearchRequest, SearchRouteCodec

_MOST = 32  # commands of a request


def decode_search(body: Wire) -> SearchRequest:
    commands: Any = body.get("commands")
    if commands is not None and not is_object(commands):
        raise WireError(PROTOCOL_NAME, "commands", f"expected an object, got {describe(commands)}")
    given = {name: value for name, value in (commands or {}).items() if is_array(value)}
    found = [_command(name, row) for name, value in given.items() for row in rows(value)]
    said = body.get("input")
    if not found and isinstance(said, str) and said:
        found = [SearchCommand("search", said)]
    settings = body.get("settings")
    return SearchRequest(
        _text(body, "id"),
        _text(body, "model"),
        tuple(found[:_MOST]),
        _settings(settings) if is_object(settings) else {},
        "" if said is None else jsontext.dumps(said),
    )


def _command(name: str, row: Wire) -> SearchCommand:
    match name:
        case "search_query":
            domains = row.get("domains")
            named = tuple(str(each) for each in domains) if is_array(domains) else ()
            return SearchCommand("search", _text(row, "q"), named)
        case "open":
            line = row.get("lineno")
            return SearchCommand("open", ref=_text(row, "ref_id"), line=line if type(line) is int else 1)
        case "find":
            return SearchCommand("find", ref=_text(row, "ref_id"), pattern=_text(row, "pattern"))
        case "time":
            return SearchCommand("time", offset=_text(row, "utc_offset"))
        case _:
            return SearchCommand("unknown", name=name)


def _settings(settings: Wire) -> dict[str, Any]:
    filters, location = settings.get("filters"), settings.get("user_location")
    found: dict[str, Any] = {}
    for key in ("allowed_domains", "blocked_domains"):
        if is_object(filters) and is_array(filters.get(key)) and filters[key]:
            found[key] = [str(each) for each in filters[key]]
    if is_object(location):
        found["location"] = {key: value for key, value in location.items() if key != "type" and value}
    if settings.get("search_context_size"):
        found["context_size"] = settings["search_context_size"]
    return found


def encode_found(output: str, sources: Any) -> Wire:
    found: list[FoundSource] = [*sources]
    results = [{"type": "text_result", "url": each.url, "title": each.title} for each in found if each.url]
    return {"output": output, "results": results}


def _text(row: Wire, key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


SEARCH_ROUTE = SearchRouteCodec(decode_search, encode_found)
