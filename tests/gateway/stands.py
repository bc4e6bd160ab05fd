"""A gateway between real servers: the demo as upstream of every protocol, and what both sides saw."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.demo import DemoApp
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import load
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.hosted.loop import HostedTools
from gateway.running import running
from spoken import SPOKEN
from waiting import wait_until

UPSTREAM_KEY = "upstream-key-7f3a"
CLIENT_KEY = "client-key-91bc"
PROTOCOLS = tuple(SPOKEN)
UPSTREAMS = (*PROTOCOLS, "hermes")  # the last one has no native tool calling
MODELS = {name: row.model for name, row in SPOKEN.items()} | {"hermes": "text-model"}
HASTY = RetryPolicy(first_wait=0.005, longest_wait=0.03, longest_wait_with_fallback=0.03, opens_after=1000)


class Stand:
    """A running gateway: its address, its insides, and the lines of its log."""

    def __init__(self, gateway: Gateway, lines: list[str]) -> None:
        self.gateway, self.lines = gateway, lines
        self.url = ""

    @property
    def records(self) -> list[dict[str, Any]]:
        """The access log of exchanges so far."""
        read = [jsontext.decode(line) for line in self.lines]
        return [line for line in read if "client" in line]

    def last_record(self) -> dict[str, Any]:
        """The last line, with others still under way."""
        wait_until(lambda: self.records)
        return self.records[-1]

    def last(self) -> dict[str, Any]:
        """The last exchange."""
        return self.finished()[-1]

    def finished(self) -> list[dict[str, Any]]:
        """The access log when nothing is under way: a line is written after its answer has gone out."""
        wait_until(lambda: self.records and self.gateway.access_log.metrics.in_flight == 0)
        return self.records

    def begin(self) -> None:
        """Empty the log, once what the last test began has been written to it."""
        wait_until(lambda: self.gateway.access_log.metrics.in_flight == 0)
        self.lines.clear()


def configuration(upstream: str, keys: str = "") -> str:
    """One provider for each protocol at `upstream`, one that speaks in text, one whose calls leak."""
    rows = [f"[server]\nkeys = [{keys}]\n"]
    for name in UPSTREAMS:
        protocol = "openai-chat" if name == "hermes" else name
        version = "/v1" if protocol.startswith("openai") else ""
        rows.append(
            f'[providers.{name}]\nprotocol = "{protocol}"\nbase_url = "{upstream}{version}"\n'
            f'api_key = "{UPSTREAM_KEY}"\ntimeouts = {{ connect = 30, first_byte = 30, idle = 30 }}\n'
            + ('dialect = "hermes"\n' if name == "hermes" else "")
        )
    rows.append(
        f'[providers.leaky]\nprotocol = "openai-chat"\nbase_url = "{upstream}/v1"\nrecover = true\n'
        f'api_key = "{UPSTREAM_KEY}"\n'
    )
    return "\n".join(rows)


@contextlib.contextmanager
def gateway(
    text: str,
    pace: RetryPolicy = HASTY,
    verbose: bool = False,
    environ: dict[str, str] | None = None,
    hosted: HostedTools | None = None,
) -> Iterator[Stand]:
    """A gateway with this configuration."""
    lines: list[str] = []
    config = replace(load(text, environ or {}), verbose=verbose)
    config = replace(config, store_url=config.store_url or "memory:")
    stand = Stand(Gateway(config, AccessLog(lines.append), pace, hosted=hosted), lines)
    with running(stand.gateway) as stand.url:
        yield stand


@contextlib.contextmanager
def demo() -> Iterator[tuple[DemoApp, str]]:
    """The demo as an upstream that wants its key."""
    app = DemoApp(key=UPSTREAM_KEY)
    with running(app) as url:
        yield app, url
