"""The gateways that are measured, the limit first."""

from bench.gateway.contenders import litellm, ours, portkey, proxy, relay, tensorzero
from bench.gateway.contenders.base import Gateway, Missing

LIMIT = proxy.NGINX
RELAY = relay.RELAY
DRAGOMAN = ours.DRAGOMAN
TENSORZERO = tensorzero.TENSORZERO
PORTKEY = portkey.PORTKEY
LITELLM = litellm.LITELLM
GATEWAYS: tuple[Gateway, ...] = (LIMIT, DRAGOMAN, TENSORZERO, PORTKEY, LITELLM)

__all__ = ["DRAGOMAN", "GATEWAYS", "LIMIT", "LITELLM", "PORTKEY", "RELAY", "TENSORZERO", "Gateway", "Missing"]
