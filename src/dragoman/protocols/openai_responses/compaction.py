"""Compaction items, which stand for earlier turns.

A server's own item is opaque and only that server reads it. Ours is a sealed summary.
"""

from __future__ import annotations

import hashlib
from typing import Any

from dragoman.core import seal
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_object
from dragoman.core.model import Wire
from dragoman.protocols.openai_responses.wire import PROTOCOL_NAME

# Codex calls them compaction_summary and context_compaction in older builds (codex-rs/protocol/src/models.rs)
ITEMS = frozenset({"compaction", "compaction_summary", "context_compaction"})
TRIGGER = "compaction_trigger"
_SEALED = "compaction"


def encode_compaction(summary: str) -> Wire:
    name = hashlib.sha256(summary.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return {"type": "compaction", "id": f"cmp_{name}", "encrypted_content": seal.seal(_SEALED, summary)}


def summary_of(item: Wire) -> str:
    """The summary in an item of ours; empty where another server made the item."""
    sealed = item.get("encrypted_content")
    match seal.unseal(sealed) if isinstance(sealed, str) else None:
        case [kind, str(summary)] if kind == _SEALED:
            return summary
        case _:
            return ""


def is_trigger(item: Any) -> bool:
    return is_object(item) and item.get("type") == TRIGGER


def misplaced(where: str) -> WireError:
    return WireError(PROTOCOL_NAME, where, f"The '{TRIGGER}' item must be the final input item.")
