"""Settings, tools and images that the model or its server refuses are withheld and reported before encoding.

The profile alone decides, so this is the same for every protocol.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from dragoman.core.losses import Losses
from dragoman.core.model import Request, Settings
from dragoman.core.model_profile import ModelProfile

# Values that mean the same as saying nothing: leaving them out loses nothing
_DEFAULTS: dict[str, Any] = {"n": 1, "frequency_penalty": 0, "presence_penalty": 0}


@lru_cache(maxsize=256)
def restricts(profile: ModelProfile) -> bool:
    """Whether `restrict` can change any request."""
    limits = (profile.refused, profile.min_output, profile.max_output, profile.max_tools)
    return any(limits) or profile.service_tiers is not None


def restrict(request: Request, profile: ModelProfile, losses: Losses) -> Request:
    """`request` without what the profile rules out; `WithoutImages` (content.py) is for its messages."""
    settings = _settings(request.settings, profile, losses)
    changes: dict[str, Any] = {} if settings is request.settings else {"settings": settings}
    if request.parallel is not None and "parallel" in profile.refused:
        losses.dropped("parallel", "The server refuses it.", "setting.parallel")
        changes["parallel"] = None
    most = profile.max_tools
    if most and len(request.tools) > most:
        for tool in request.tools[most:]:
            losses.dropped(tool.where, f"The server takes at most {most} tools.", "tool.count")
        changes["tools"] = request.tools[:most]
    return replace(request, **changes) if changes else request


def _settings(settings: Settings, profile: ModelProfile, losses: Losses) -> Settings:
    changes: dict[str, Any] = {}
    for name in profile.refused:
        value = getattr(settings, name, None)
        if value is not None:
            changes[name] = None
            if value is not False and value != _DEFAULTS.get(name):
                losses.dropped(name, "The server refuses it.", f"setting.{name}")
    tier, tiers = settings.service_tier, profile.service_tiers
    if tier is not None and tiers is not None and tier not in tiers:
        changes["service_tier"] = None
        if tier != "auto":
            losses.dropped("service_tier", f"The server has no tier {tier!r}.", "setting.service_tier")
    tokens = settings.max_tokens
    if tokens is not None:
        fitted = max(min(tokens, profile.max_output or tokens), profile.min_output)
        if fitted != tokens:
            changes["max_tokens"] = fitted
            losses.changed("max_tokens", f"The server takes {fitted}, not {tokens}.", "setting.max_tokens")
    return replace(settings, **changes) if changes else settings
