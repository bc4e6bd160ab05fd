"""The schema of `dragoman.toml`: one class for each table, one field for each key."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from dragoman.hosted.settings import HostedSettings

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Dollars = Annotated[float, Meta(ge=0)]
Days = Annotated[float, Meta(gt=0)]


class ServerTable(Struct, frozen=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Port = 8787
    keys: str | tuple[str, ...] = ()
    max_body_mb: Annotated[int, Meta(ge=1)] = 64
    grace: Count = 30
    drain: Count = 0
    request_timeout: Annotated[float, Meta(ge=0)] = 0  # seconds; 0: none
    memory_mb: Count = 0
    history_mb: Count = 64
    tls_cert: str = ""
    tls_key: str = ""
    connections_per_address: Count = 0
    failed_keys_per_minute: Count = 0  # of one address; 0: any number
    reload: bool = False  # when the file changes


class StoreTable(Struct, frozen=True, forbid_unknown_fields=True):
    url: str = ""
    keep_days: Days = 30
    max_mb: Annotated[int, Meta(ge=1)] = 1024


class InspectorTable(Struct, frozen=True, forbid_unknown_fields=True):
    """`keep`: recordings on disk, 0: only in memory, up to `max_mb`. `admin_keys`: who may open the page."""

    enabled: bool = False
    keep: Count = 0
    path: str = ""
    max_mb: Annotated[int, Meta(ge=1)] = 64
    admin_keys: str | tuple[str, ...] = ()


class JobsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """`batch_concurrency`: lines of batches that run at a time. `takeover_seconds`: how long a gateway may be
    silent before another one takes over its jobs."""

    batch_concurrency: Annotated[int, Meta(ge=1)] = 8
    takeover_seconds: Seconds = 30.0


class LogTable(Struct, frozen=True, forbid_unknown_fields=True):
    verbose: bool = False
    file: str = ""


class LimitsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a process: `in_flight`, `queue`. Of each key: the others. 0: no limit."""

    in_flight: Count = 1000
    queue: Count = 250
    queue_seconds: Seconds = 10.0
    requests_per_minute: Count = 0
    concurrency: Count = 0
    tokens_per_day: Count = 0
    usd_per_day: Dollars = 0.0
    usd_per_month: Dollars = 0.0


class BudgetTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a key, for the models that fit a pattern."""

    tokens_per_day: Count = 0
    usd_per_day: Dollars = 0.0
    usd_per_month: Dollars = 0.0


class KeyTable(Struct, frozen=True, forbid_unknown_fields=True):
    key: str | None = None
    expires: Any = None  # a TOML date or time, or its text
    models: tuple[str, ...] | None = None
    requests_per_minute: Count | None = None
    concurrency: Count | None = None
    tokens_per_day: Count | None = None
    usd_per_day: Dollars | None = None
    usd_per_month: Dollars | None = None
    budgets: dict[str, Any] | None = None  # pattern -> a BudgetTable


class TargetTable(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a list of targets."""

    to: str
    weight: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    set: dict[str, Any] | None = None
    default: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None


class TimeoutsTable(Struct, frozen=True, forbid_unknown_fields=True):
    connect: Seconds | None = None
    first_byte: Seconds | None = None
    idle: Seconds | None = None


class SurfaceTable(Struct, frozen=True, forbid_unknown_fields=True):
    protocol: str
    base_url: str
    bearer: bool = False


class CredentialsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What an upstream's requests are signed or authorised with; which fields count depends on the protocol.
    `tenant`, `file` and `identity` are not part of a credential: one is fetched with them."""

    key: str = ""
    id: str = ""
    secret: str = ""
    session: str = ""
    region: str = ""
    token: str = ""
    tenant: str = ""
    file: str = ""
    identity: str = ""


class PooledTable(CredentialsTable, frozen=True, forbid_unknown_fields=True):
    """One of several; `name` stands for it wherever it is reported."""

    weight: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    name: str = ""


class ProviderTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A key that is left out has the value of the known provider of that name."""

    protocol: str | None = None
    base_url: str | None = None
    surfaces: tuple[Any, ...] | None = None  # a SurfaceTable each, instead of protocol and base_url
    api_key: str | None = None
    api_keys: tuple[Any, ...] | None = None  # keys, or a PooledTable each
    shares_state: bool | None = None
    credentials: dict[str, Any] | list[Any] | None = None  # a CredentialsTable, or several PooledTables
    region: str | None = None
    project: str | None = None
    location: str | None = None
    proxy: str | None = None
    dialect: str | None = None
    recover: bool | None = None
    passthrough: bool | None = None
    keeps: bool | None = None
    headers: dict[str, str] | None = None
    timeouts: dict[str, Any] | None = None  # a TimeoutsTable
    max_concurrency: Count | None = None
    queue: Count | None = None
    queue_seconds: Seconds | None = None
    models: tuple[str, ...] | None = None
    profiles: dict[str, Any] | None = None  # pattern -> fields of a ModelProfile, and `like`
    set: dict[str, Any] | None = None  # neutral settings, and so is `default`
    default: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None


SECTIONS = {
    "server": ServerTable,
    "limits": LimitsTable,
    "keys": KeyTable,
    "store": StoreTable,
    "log": LogTable,
    "inspector": InspectorTable,
    "jobs": JobsTable,
    "hosted": HostedSettings,
    "providers": ProviderTable,
    "models": None,
}
