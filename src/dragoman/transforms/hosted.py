"""Hosted tools that an upstream is offered: those that it runs, and whose every restriction it can be told.

A restriction that cannot be said must not become a permission: the tool is withheld then, with what
authorises it, and the loss names the restriction.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from msgspec.structs import replace

from dragoman.core.caches import cached_by_tools
from dragoman.core.codec import ProtocolLimits
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import CLIENT_TOOLS, AnyTool, HostedTool, Request, ToolChoice, ToolDeclaration, Value

# Settings that keep a tool from something: what an upstream does that cannot be told
_RESTRICTIONS = {
    "approval": "runs the tools of an MCP server without the approval that the client demands",
    "allowed": "cannot be limited to some of the tools of an MCP server",
    "denied": "cannot be kept from some of the tools of an MCP server",
    "filter": "cannot choose the tools of an MCP server in this way",
    "allowed_domains": "cannot be limited to some domains",
    "blocked_domains": "cannot be kept from some domains",
}


def with_offered_tools(request: Request, limits: ProtocolLimits, upstream: str, losses: Losses) -> Request:
    """`request` without the hosted tools that this upstream must not be offered."""
    choice = request.tool_choice
    if choice and (_is_native(choice, upstream) or not (choice.mode == "none" or choice.restricts)):
        choice = None
    facts = (choice.mode, choice.names, choice.hosted) if choice else None
    tools = _offered(request.tools, losses, limits, upstream, facts)
    return request if tools is request.tools else replace(request, tools=tools)


@cached_by_tools
def _offered(
    tools: tuple[AnyTool, ...],
    losses: Losses,
    limits: ProtocolLimits,
    upstream: str,
    choice: tuple[Any, tuple[str, ...], tuple[str, ...]] | None,
) -> tuple[AnyTool, ...]:
    permits = ToolChoice(choice[0], choice[1], choice[2]) if choice else None
    offered = [tool for each in tools if (tool := _offer(each, permits, limits, upstream, losses))]
    return tools if len(offered) == len(tools) and all(map(is_, offered, tools)) else tuple(offered)


def _offer(
    tool: AnyTool, choice: ToolChoice | None, limits: ProtocolLimits, upstream: str, losses: Losses
) -> AnyTool | None:
    """`tool` as it may be offered, or None."""
    if choice and not _permits(choice, tool, limits):
        why = "Left out: your tool choice does not allow it, and the target cannot choose among such tools."
        losses.changed(tool.where, why, "hosted.choice")
        return None
    if isinstance(tool, ToolDeclaration):
        return tool
    if limits.lists_hosted and tool.kind not in limits.hosted_tools and tool.kind not in CLIENT_TOOLS:
        why = f"The server runs no hosted {tool.name or tool.kind} tool."
        losses.dropped(tool.where, why, f"hosted.{tool.kind}")
        return None
    if _is_native(tool, upstream) or tool.kind not in limits.hosted_tools:  # the second is reported later
        return tool
    return _restricted(tool, limits, losses)


def _permits(choice: ToolChoice, tool: AnyTool, limits: ProtocolLimits) -> bool:
    """Whether `choice` lets the model use `tool`, or the upstream's own choice keeps it from that."""
    if isinstance(tool, ToolDeclaration):
        return bool(choice.names) or not choice.hosted
    if tool.kind in CLIENT_TOOLS:
        return True  # declared as a function, which the choice covers
    if choice.mode == "none":
        return "none" in limits.hosted_choices
    label = f"{tool.kind}:{tool.settings.get('label')}"
    return tool.kind in choice.hosted or label in choice.hosted or "names" in limits.hosted_choices


def _restricted(tool: HostedTool, limits: ProtocolLimits, losses: Losses) -> HostedTool | None:
    tool = _with_one_domain_list(tool, losses)
    settings = tool.settings
    if is_array(settings.get("allowed")) and not settings["allowed"]:
        return _withhold(tool, "allowed", "None of its tools is allowed.", losses)
    for name, what in _RESTRICTIONS.items():
        value = settings.get(name)
        if value and value != "never" and f"{tool.kind}.{name}" not in limits.hosted_filters:
            return _withhold(tool, name, f"The target {what}.", losses)
    return tool


def _withhold(tool: HostedTool, setting: str, why: str, losses: Losses) -> None:
    secret = " Its authorization was withheld too." if tool.settings.get("headers") else ""
    losses.dropped(f"{tool.where}.{setting}", why, "hosted.setting")
    losses.dropped(tool.where, f"{why} The tool was withheld.{secret}", f"hosted.{tool.kind}")


def _with_one_domain_list(tool: HostedTool, losses: Losses) -> HostedTool:
    """No provider takes allowed and blocked domains together (400; G96: bifrost sanitizeWebSearchArguments).

    Blocked ones that lie outside the allowed ones say nothing; allowed ones inside a blocked one are none.
    """
    allowed, blocked = (tool.settings.get(name) or () for name in ("allowed_domains", "blocked_domains"))
    if not allowed or not blocked:
        return tool
    left = [each for each in allowed if not any(_covers(one, each) for one in blocked)]
    if not left or any(_covers(each, one) for one in blocked for each in left):
        return tool
    why = "The blocked domains lie outside the allowed ones, so they change nothing."
    losses.changed(f"{tool.where}.blocked_domains", why, "hosted.domains")
    rest = {name: value for name, value in tool.settings.items() if name != "blocked_domains"}
    return replace(tool, settings={**rest, "allowed_domains": left})


def _covers(domain: Any, other: Any) -> bool:
    """Whether `other` is `domain`, below it, or a path of it."""
    domain, other = str(domain).lower(), str(other).lower()
    return other == domain or other.endswith(f".{domain}") or other.startswith(f"{domain}/")


def _is_native(value: Value, protocol: str) -> bool:
    return bool(value.extras) and protocol in (value.extras or ())
