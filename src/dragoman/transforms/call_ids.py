"""Call ids: legal for the server that reads them, unique in the conversation, and restored on the way back.

Toward an upstream an id is rewritten only where it is illegal. Toward a client it may have to carry
more than a name, because an id is the one thing that every client echoes: the upstream's own
spelling, and the opaque state of the call (a Gemini signature), sealed inside the id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2s
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.jsontext import is_array
from dragoman.core.model import AnyPart, Reasoning, State, ToolCall
from dragoman.core.seal import MAGIC, seal, unseal, untagged

LONGEST = 8192  # sealed ids stay shorter; what does not fit is withheld and reported
SHORT = 64  # what every client keeps of an id
_AGAIN = "__dgm"
_REPEATED = re.compile(r"__dgm\d+\Z")
_INVENTED = re.compile(r"call_dgm_(\d+)\Z")


class CallId(Struct, frozen=True):
    """What a client-side id carries: the upstream's own id, and what travelled with it.

    `reasoning` stood right before the call, `opening` before the text that the call followed.
    """

    id: str
    state: State | None = None
    reasoning: tuple[Reasoning, ...] = ()
    opening: tuple[Reasoning, ...] = ()

    @property
    def carries(self) -> bool:
        return bool(self.reasoning or self.opening)


@lru_cache(maxsize=64)
def _pattern(alphabet: str) -> re.Pattern[str]:
    return re.compile(alphabet)


def legal(id: str, limits: ProtocolLimits) -> str:
    """`id` as an upstream with these limits takes it; always the same for the same id."""
    if len(id) <= limits.call_id_length and _pattern(limits.call_id).fullmatch(id):
        return id
    digest = blake2s(id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    if limits.call_id_length < 16:  # Mistral: exactly nine alphanumerics
        return digest[: limits.call_id_length]
    kept = re.sub(r"[^a-zA-Z0-9_-]", "_", id)[: limits.call_id_length - 13]
    return f"{kept or 'call'}_{digest[:12]}"


def are_legal(calls: Iterable[ToolCall], limits: ProtocolLimits) -> bool:
    """Whether an upstream with these limits takes the ids of `calls` as they are."""
    longest, matches = limits.call_id_length, _pattern(limits.call_id).fullmatch
    return not [call for call in calls if len(call.id) > longest or not matches(call.id)]


def invent(number: int) -> str:
    """The id of a call to which the upstream gave none."""
    return f"call_dgm_{number}"


def invented(id: str) -> int | None:
    """The number inside an id that `invent` made, else None."""
    if not id.startswith("call_dgm_"):
        return None
    found = _INVENTED.match(id)
    return int(found[1]) if found else None


def wrap(call: CallId, limits: ProtocolLimits) -> str:
    """The id a client sees. It begins as that client expects and carries what must come back."""
    if not (call.state or call.reasoning or call.opening) and (made := wrap_plain(call.id, limits)):
        return made
    thoughts = [[_pack(part) for part in parts] for parts in (call.reasoning, call.opening)]
    carried = [call.id, _pack_state(call.state), *thoughts]
    # First a digest: some clients keep only the beginning of an id, by which the gateway then finds the whole
    digest = blake2s(jsontext.encode(carried), digest_size=6).hexdigest()
    return limits.call_id_prefix + seal(f"call {digest}", *carried).rstrip("=")


def wrap_plain(id: str, limits: ProtocolLimits) -> str:
    """`wrap` for an id with which nothing travelled; empty where its own characters need a seal."""
    if not id or len(id) > LONGEST or MAGIC in id or not _pattern(limits.call_id).fullmatch(id):
        return ""
    prefix = limits.call_id_prefix
    if not prefix or (id.startswith(prefix) and not id.startswith("_", len(prefix))):
        return id
    return f"{prefix}_{id}"  # toolu__call_1: the doubled underscore marks what we put in front


def is_bare(id: str) -> bool:
    """Whether an id that a client sends is what the upstream gave, with nothing put in front or inside."""
    return "__" not in id and MAGIC not in id


def unwrap(id: str, limits: ProtocolLimits) -> CallId | None:
    """The inverse of `wrap`; None for an id that is not ours and stands for itself."""
    prefix = limits.call_id_prefix
    first = _REPEATED.sub("", id) if _AGAIN in id else id
    if MAGIC in id:
        at = first.index(MAGIC)
        if found := untagged(first[at:]):  # another gateway made the id, and we only passed it on
            return CallId(first[:at] + found[1])
        return _opened(unseal(first[first.index(MAGIC) :]))
    if prefix and id.startswith(prefix) and id.startswith("_", len(prefix)):
        return CallId(first[len(prefix) + 1 :])
    return CallId(first) if first != id else None


def unique(id: str, used: set[str]) -> str:
    """An id that the conversation does not have yet, and that `unwrap` reads as `id`.

    Kimi numbers calls within a reply, so that `functions.f:0` comes in each turn (kimi-code#1730); others
    repeat an id within one reply.
    """
    made, number = id, 1
    while made in used:
        number += 1
        made = f"{id}{_AGAIN}{number}"
    used.add(made)
    return made


def with_thoughts(before: list[AnyPart], call: CallId, where: str) -> list[AnyPart]:
    """The parts `before` a call with the thoughts that travelled in its id, each at its own place.

    A client that echoes thoughts itself has them among `before`, where its protocol puts them.
    """
    carried = (*call.opening, *call.reasoning)
    parts = [part for part in before if not _is_repeated(carried, part)]
    turn = max([i + 1 for i, part in enumerate(parts) if type(part) is ToolCall], default=0)
    opening, reasoning = [
        [replace(part, where=where) for part in thoughts] for thoughts in (call.opening, call.reasoning)
    ]
    return [*parts[:turn], *opening, *parts[turn:], *reasoning]


def _is_repeated(carried: tuple[Reasoning, ...], part: AnyPart) -> bool:
    if type(part) is not Reasoning:
        return False
    if part.state:
        return any(part.state == thought.state for thought in carried)
    return any(thought.text and thought.text in part.text for thought in carried)


def _opened(values: list[Any] | None) -> CallId | None:
    match values:
        case [str(kind), str(id), state, [*reasoning], [*opening]] if kind.startswith("call"):
            thoughts = [tuple([_unpack(part) for part in parts]) for parts in (reasoning, opening)]
            return CallId(id, _unpack_state(state), *thoughts)
        case _:
            return None


def _pack(part: Reasoning) -> list[Any]:
    return [part.text, part.hidden, _pack_state(part.state)]


def _unpack(packed: Any) -> Reasoning:
    if not is_array(packed) or len(packed) != 3:
        return Reasoning()
    return Reasoning(str(packed[0]), bool(packed[1]), state=_unpack_state(packed[2]))


def _pack_state(state: State | None) -> list[str] | None:
    return [state.origin, state.data, state.id] if state else None


def _unpack_state(packed: Any) -> State | None:
    if not is_array(packed) or len(packed) != 3:
        return None
    origin, data, id = packed
    return State(str(origin), str(data), str(id))
