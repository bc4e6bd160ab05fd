"""A gateway under test: how it is started, and where its clients find a pair."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.gateway.pairs import PATHS, Kind, Pair
from bench.gateway.upstream import Upstream


class Missing(Exception):
    """This machine cannot run the gateway; the message says why."""


@dataclass(frozen=True, slots=True)
class Start:
    """`port_file` holds the port of a gateway that chooses it itself."""

    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    port_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Path and model for one pair."""

    path: str
    model: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Gateway:
    """`version` may raise Missing, `start` may write files, `endpoint` is None for what it does not offer."""

    name: str
    version: Callable[[], str]
    start: Callable[[Path, int, Upstream], Start]
    endpoint: Callable[[Upstream, Pair, Kind], Endpoint | None]
    start_timeout: float = 20.0  # seconds until it must have answered once


def default_endpoint(pair: Pair, kind: Kind) -> Endpoint:
    return Endpoint(PATHS[pair.client], f"{pair.upstream}-{kind}")
