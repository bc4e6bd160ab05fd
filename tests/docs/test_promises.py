"""The page of promises: every limit that can be set, the numbers of the code, and tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.inspect import FloatType, IntType, StructType, Type, UnionType, type_info

from dragoman.core.transport import Timeouts
from dragoman.fetch.download import REDIRECTS
from dragoman.gateway.config import tables
from dragoman.gateway.handlers.relay import LARGEST_EVENT
from dragoman.gateway.large_bodies import MOST_VALUES
from dragoman.gateway.upstreams import affinity, attempts, pools, routing
from dragoman.gateway.upstreams.retry_policy import RetryPolicy
from dragoman.hosted import mcp_tools, page_parser, web_fetch
from dragoman.hosted.settings import HostedSettings, WebSearchSettings
from dragoman.http.server import ServerLimits
from dragoman.mcp_client import session
from dragoman.profiles import ProviderSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/promises.md"
MIB = 1024 * 1024
POLICY, SERVER = RetryPolicy(), ServerLimits()
# Those that no setting changes, as the page calls them, in its units
FIXED: dict[str, float] = {
    "values in a body": MOST_VALUES,
    "head of a request": SERVER.max_head / 1024,
    "time for a head": SERVER.head,
    "time for a body": SERVER.body,
    "idle connection of a client": SERVER.idle,
    "time without the client reading": SERVER.unread,
    "length of a model's name": routing._LONGEST_NAME,  # type: ignore[attr-defined]
    "sessions that keep their account": affinity.MOST,
    "time that a session keeps it": affinity.LASTS,
    "longest rest of an account that gives no time": pools._LONGEST_REST,  # type: ignore[attr-defined]
    "tries at one target": POLICY.tries,
    "failures in a row until a provider is paused": POLICY.opens_after,
    "pause of such a provider": POLICY.stays_open,
    "longest `Retry-After` that is waited for": POLICY.longest_wait,
    "silence until a stream begins all the same": POLICY.keep_alive_after,
    "a whole reply": attempts.LARGEST_REPLY / MIB,
    "an event of a stream": LARGEST_EVENT / MIB,
    "a page that is fetched": web_fetch.LARGEST_TEXT / MIB,
    "a PDF that is fetched": web_fetch.LARGEST_PAGE / MIB,
    "pages that are fetched for one caller at a time": web_fetch.SHARE,
    "redirects of such a page": REDIRECTS,
    "pages of a PDF": page_parser.PDF_PAGES,
    "sessions with MCP servers": mcp_tools.SESSIONS,
    "idle session with an MCP server": mcp_tools.IDLE_SECONDS,
    "tools of an MCP server": session.MOST_TOOLS,
    "a reply of an MCP server": session.MOST_BYTES / MIB,
    "JSON values in it": session.MOST_VALUES,
}
# Where the defaults of a table are another class's
DEFAULTS: dict[str, Any] = {
    "providers.NAME": ProviderSettings(name="", protocol="", base_url=""),
    "providers.NAME.timeouts": Timeouts(),
}
NO_LIMITS = {"server.port", "hosted.web_search.backend"}


def settings() -> Iterator[tuple[str, float]]:
    """Each setting that is a number, and its default."""
    sections = {
        "server": tables.ServerTable,
        "limits": tables.LimitsTable,
        "store": tables.StoreTable,
        "inspector": tables.InspectorTable,
        "jobs": tables.JobsTable,
        "providers.NAME": tables.ProviderTable,
        "providers.NAME.timeouts": tables.TimeoutsTable,
        "hosted": HostedSettings,
        "hosted.web_search": WebSearchSettings,
    }
    for name, kind in sections.items():
        yield from numbers(name, type_info(kind), DEFAULTS.get(name))


def numbers(place: str, kind: Type, default: Any) -> Iterator[tuple[str, float]]:
    assert isinstance(kind, StructType)
    for field in kind.fields:
        where = f"{place}.{field.name}"
        value = getattr(default, field.name, field.default)
        types = field.type.types if isinstance(field.type, UnionType) else (field.type,)
        if any(isinstance(each, IntType | FloatType) for each in types):
            yield where, value
        elif isinstance(field.type, StructType) and value is not msgspec.NODEFAULT:
            yield from numbers(where, field.type, value)


@cache
def rows() -> dict[tuple[str, str], tuple[str, str]]:
    """(limit, setting) -> its default and its test."""
    lines = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines if len(line) == 5]
    kept = [row for row in cells if row[0] != "limit" and not row[0].startswith("---")]
    return {(row[0], row[1].strip("`")): (row[2], row[4].strip("`")) for row in kept}


def stated(default: str) -> float:
    """The first number; `none`: 0."""
    found = re.match(r"[\d,]+", default)
    assert found or default.startswith("none"), default
    return float(found[0].replace(",", "")) if found else 0.0


def test_every_setting_that_is_a_number_has_a_row():
    listed = {setting for _, setting in rows() if setting != "fixed"}
    assert listed == {name for name, _ in settings()} - NO_LIMITS


def test_every_fixed_limit_is_known_here():
    assert {limit for limit, setting in rows() if setting == "fixed"} == set(FIXED)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_default_is_that_of_the_code(row: tuple[str, str]):
    limit, setting = row
    value = FIXED[limit] if setting == "fixed" else dict(settings())[setting]
    assert stated(rows()[row][0]) == value


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_its_test_exists(row: tuple[str, str]):
    path, _, name = rows()[row][1].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
