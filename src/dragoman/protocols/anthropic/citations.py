"""Citations of a text block <-> neutral ones.

A citation goes back to Anthropic as it came: its index is encrypted. One that we made for a client
carries a seal in that place, so that it is known when it comes back.
"""

from __future__ import annotations

from typing import Any

from dragoman.core.fields import Fields, own
from dragoman.core.losses import Losses
from dragoman.core.model import Citation, Wire
from dragoman.core.seal import seal, unseal
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME

_MADE_HERE = seal("citation")


def decode_citation(citation: Any, where: str, losses: Losses) -> Citation:
    """What points into a document has no URL; only its words mean something elsewhere."""
    fields = Fields(citation, where, PROTOCOL_NAME)
    wire = {PROTOCOL_NAME: fields.rest.copy()}
    cited = fields.text("cited_text")
    match fields.text("type"):
        case "web_search_result_location":
            url, title = fields.text("url"), fields.text("title")
            ours = unseal(fields.text("encrypted_index")) is not None
            return Citation(url, title, cited, where=where, extras=None if ours else wire)
        case "search_result_location":
            return Citation(fields.text("source"), fields.text("title"), cited, where=where, extras=wire)
        case kind:
            losses.dropped(where, f"a citation of type {kind or 'nothing'} points into a document")
            return Citation("", fields.text("document_title"), cited, where=where, extras=wire)


def encode_citation(citation: Citation) -> Wire:
    return own(citation.extras, PROTOCOL_NAME) or {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title,
        "cited_text": citation.cited,
        "encrypted_index": _MADE_HERE,
    }


def is_native(citation: Citation) -> bool:
    return bool(own(citation.extras, PROTOCOL_NAME))
