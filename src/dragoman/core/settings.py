"""What the settings of several protocols share: efforts and budgets of reasoning, the schema of an answer.

A model refuses efforts and budgets that it does not know (G107: litellm#29304, bifrost#4861).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dragoman.core.losses import Losses
from dragoman.core.model import Effort, OutputFormat, Settings, Wire
from dragoman.core.model_profile import ModelProfile

_BANDS: tuple[tuple[int, Effort], ...] = (
    (0, "none"),
    (512, "minimal"),
    (2048, "low"),
    (10_000, "medium"),
    (16_000, "high"),
)
_BUDGET: dict[Effort, int] = {
    "none": 0,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 32_000,
}


def budget_for(effort: Effort) -> int:
    return _BUDGET[effort]


def effort_for(budget: int) -> Effort:
    """The least effort whose band holds `budget`."""
    for most, effort in _BANDS:
        if budget <= most:
            return effort
    return "xhigh"


_LEVELS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


def fit_effort(effort: Effort, profile: ModelProfile, losses: Losses) -> Effort:
    """The nearest effort that a model of Claude takes. One that takes none gets a budget instead."""
    wanted: Effort = "low" if effort in ("none", "minimal") else effort
    nearest = profile.nearest_effort(wanted, _LEVELS)
    if nearest is None or nearest == wanted:
        return wanted
    losses.changed("effort", f"The model takes no effort {effort}. It gets {nearest}.", "setting.effort")
    return nearest


def fit_thinking(
    settings: Settings, profile: ModelProfile, losses: Losses
) -> tuple[Effort | None, int | None]:
    """Effort and budget for a model of Claude. Where it takes no budget it gets the effort nearest to it."""
    effort = fit_effort(settings.effort, profile, losses) if settings.effort else None
    budget = settings.budget if settings.budget and settings.budget > 0 else None
    if budget and profile.budget is False:
        losses.changed("budget", "The model takes an effort and no budget.", "setting.budget")
        return effort or fit_effort(effort_for(budget), profile, losses), None
    return effort, budget


def report_unsent(name: Literal["effort", "budget"], settings: Settings, losses: Losses) -> None:
    """Effort and budget both say how long to think: this one is not sent, because the other one is."""
    effort, budget = settings.effort, settings.budget
    if effort is None or budget in (None, -1) or (effort == "none" and budget == 0):
        return
    sent = f"a budget of {budget} tokens" if name == "effort" else f"effort {effort}"
    losses.dropped(
        name, f"The target takes an effort or a budget, not both. It gets {sent}.", f"setting.{name}"
    )


def encode_tier(
    tier: str, known: Mapping[str, str], vendor: str, losses: Losses, field: str = "service_tier"
) -> Wire:
    """`known`: the target's word for a service tier, empty where it means the default."""
    if tier not in known:
        losses.dropped("service_tier", f"{vendor} has no tier {tier!r}.", "setting.service_tier")
    return {field: known[tier]} if known.get(tier) else {}


def described_schema(output: OutputFormat, losses: Losses) -> Wire:
    """For targets that take nothing beside a schema: with the format's name as title, and its description."""
    schema = output.schema or {"type": "object"}
    if output.name:
        schema = {"title": output.name, **schema}
    if output.description and schema.get("description", output.description) != output.description:
        why = "The schema has a description of its own, and the target has no second place for one."
        losses.dropped("output.description", why, "setting.output")
    elif output.description:
        schema = {"description": output.description, **schema}
    return schema
