"""Who is measured, the limit first."""

from bench.gateway.contenders import ours, proxy
from bench.gateway.contenders.base import Door, Gateway, Missing, Start

LIMIT, DRAGOMAN = proxy.NGINX, ours.DRAGOMAN
GATEWAYS: tuple[Gateway, ...] = (LIMIT, DRAGOMAN)

__all__ = ["DRAGOMAN", "GATEWAYS", "LIMIT", "Door", "Gateway", "Missing", "Start"]
