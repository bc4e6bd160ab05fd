"""What the operator decides of a request (`Overrides`), applied to it in neutral form or on its own wire.

A request that passes between equal protocols keeps every field that is not decided here.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.core.codec import Codec
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, Wire
from dragoman.core.model_profile import ModelProfile
from dragoman.core.overrides import PARALLEL, Overrides
from dragoman.transforms.restrictions import restrict, restricts

# Two ways to say the same: one replaces the other
_SAME = {"effort": ("budget",), "budget": ("effort",)}
_TOPIC = "setting.configured"
_ANY = (Message("user", (Text("-"),)),)  # no protocol takes a request without a message


def apply_overrides(overrides: Overrides, request: Request, losses: Losses) -> Request:
    """`request` with what is decided; every difference is reported."""
    changes = _changes(overrides, request, losses)
    if not changes:
        return request
    parallel = changes.pop(PARALLEL, request.parallel)
    settings = replace(request.settings, **changes) if changes else request.settings
    return replace(request, settings=settings, parallel=parallel)


def override_wire(
    overrides: Overrides, wire: Wire, codec: Codec, profile: ModelProfile, losses: Losses
) -> Wire:
    """A request between equal protocols: the fields of what is decided are replaced, all others stay."""
    request = replace(codec.decode_request(wire, Losses()), messages=_ANY, extras=None)
    changed = apply_overrides(overrides, request, losses)
    if changed is not request:
        known, found = Losses(), Losses()
        before = codec.encode_request(request, known, profile)
        if restricts(profile):
            changed = restrict(changed, profile, found)
        after = codec.encode_request(changed, found, profile)
        losses.extend([loss for loss in found if loss not in known.items])
        fields = [name for name in _names(overrides) if _value(request, name) != _value(changed, name)]
        for path in codec.spelling.paths(fields):
            wire = _without(wire, path.split("."))
        wire = _patched(wire, before, after)
    return add_extra(overrides, wire, losses)


def add_extra(overrides: Overrides, wire: Wire, losses: Losses) -> Wire:
    """The upstream's request with the extra fields; one that was there is replaced."""
    if not overrides.extra:
        return wire
    for name, value in overrides.extra.items():
        if name in wire and wire[name] != value:
            losses.changed(name, "An extra field of the gateway's configuration replaces it.", _TOPIC)
    return {**wire, **overrides.extra}


def _changes(overrides: Overrides, request: Request, losses: Losses) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, value in overrides.default.items():
        if all(_value(request, each) is None for each in (name, *_SAME.get(name, ()))):
            changes[name] = value
            losses.changed(name, f"It is not in the request. The gateway's default is {value!r}.", _TOPIC)
    for name, value in overrides.set.items():
        for other in _SAME.get(name, ()):
            if other not in overrides.set and (other in changes or _value(request, other) is not None):
                changes[other] = None
                losses.changed(other, f"The gateway sets {name} instead.", _TOPIC)
        changes[name] = value
        if _value(request, name) != value:
            losses.changed(name, f"The gateway sets {value!r}.", _TOPIC)
    return changes


def _names(overrides: Overrides) -> list[str]:
    decided = [*overrides.set, *overrides.default]
    return [*decided, *(other for name in decided for other in _SAME.get(name, ()))]


def _value(request: Request, name: str) -> Any:
    return request.parallel if name == PARALLEL else getattr(request.settings, name)


def _without(wire: Wire, path: list[str]) -> Wire:
    first, *rest = path
    if first not in wire:
        return wire
    if not rest:
        return {name: value for name, value in wire.items() if name != first}
    inner = wire[first]
    return {**wire, first: _without(inner, rest)} if is_object(inner) else wire


def _patched(wire: Wire, before: Wire, after: Wire) -> Wire:
    """`wire` with the difference between two encodings of it."""
    out = {name: value for name, value in wire.items() if name in after or name not in before}
    for name, value in after.items():
        old = before.get(name)
        if is_object(value) and is_object(out.get(name)):
            out[name] = _patched(out[name], old if is_object(old) else {}, value)
        elif value != old:
            out[name] = value
    return out
