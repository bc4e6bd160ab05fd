"""`dragoman.toml`: keys, limits, providers, and which model is routed where.

Errors name the file, the line and the expected value.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from dragoman.core.errors import ConfigError
from dragoman.gateway.config.files import DEFAULT_FILE, find_config
from dragoman.gateway.config.hosted import read_hosted
from dragoman.gateway.config.keys import NamedKey, read_keys, read_named_keys
from dragoman.gateway.config.models import Models, read_models
from dragoman.gateway.config.providers import read_providers
from dragoman.gateway.config.source import ConfigSource, Path
from dragoman.gateway.config.start import find_start_mistakes
from dragoman.gateway.config.tables import (
    InspectorTable,
    JobsTable,
    LimitsTable,
    LogTable,
    ServerTable,
    StoreTable,
)
from dragoman.gateway.conversations.store import Retention, open_store
from dragoman.gateway.process.descriptors import SharedDescriptor
from dragoman.hosted.settings import HostedSettings
from dragoman.profiles import ProviderSettings, known

_MB = 1024 * 1024
_DAY = 24 * 3600.0
_NO_ADMIN = "With keys, the inspector needs admin keys. Set inspector.admin_keys, or its variable."
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Config(Struct, frozen=True, kw_only=True):
    """`models` maps what a client asks for (`*` matches anything) to targets, in order.

    `request_timeout`: seconds that one request may take in all, 0: any time.
    `grace`: seconds that streams get to end on shutdown, after `drain` seconds in which only /readyz tells of
    it. `verbose` logs both wires, redacted, to `log_file`; empty: to stderr. `store_url`: the store of
    conversations; empty: the default file. `keys` includes those of `named_keys`. `workers` processes share
    the port, and count the use of keys in `counting_file`.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    keys: tuple[str, ...] = ()
    named_keys: tuple[NamedKey, ...] = ()
    limits: LimitsTable = LimitsTable()
    workers: int = 1
    counting_file: SharedDescriptor | None = None
    max_body: int = 64 * _MB
    memory: int = 0  # bytes; 0: half of the machine's
    history: int = 64 * _MB  # what is remembered of conversations
    tls_cert: str = ""
    tls_key: str = ""
    connections_per_address: int = 0
    failed_keys_per_minute: int = 0
    reload: bool = False
    grace: int = 30
    drain: int = 0
    request_timeout: float = 0
    providers: dict[str, ProviderSettings] = {}
    models: Models = ()
    store_url: str = ""
    retention: Retention = Retention()
    verbose: bool = False
    log_file: str = ""
    jobs: JobsTable = JobsTable()
    hosted: HostedSettings | None = None  # None: the gateway runs no hosted tool
    inspector: InspectorTable = InspectorTable()
    admin_keys: tuple[str, ...] = ()
    file: str = ""  # what it was read from; empty: the environment alone
    ignored_file: str = ""  # why the local file was not read
    secret_variables: tuple[str, ...] = ()  # environment variables that hold secrets of this configuration

    def __repr__(self) -> str:  # no secrets
        return f"Config({self.host}:{self.port}, {list(self.providers)}, {len(self.models)} models)"

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    return host in _LOOPBACK


def load_file(path: str | None, environ: Mapping[str, str], *, starting: bool = False) -> Config:
    """The file in force (see files.py), and above it the environment. `starting`: see `load`."""
    found = find_config(path, environ)
    config = load(found.text, environ, found.path or DEFAULT_FILE, starting=starting)
    return replace(config, file=found.path, ignored_file=found.ignored)


def load(
    text: str, environ: Mapping[str, str], path: str = DEFAULT_FILE, *, starting: bool = False
) -> Config:
    """`starting`: everything that would refuse a start is a mistake too."""
    source = ConfigSource(text, path, environ)
    server = source.section("server", ServerTable)
    log, store = source.section("log", LogTable), source.section("store", StoreTable)
    limits = source.section("limits", LimitsTable)
    keys = read_keys(source, server.keys, "server", "keys")
    inspector = source.section("inspector", InspectorTable)
    named = read_named_keys(source, limits, keys)
    models, providers = read_models(source, read_providers(source))
    url = _store_url(source, store)
    jobs, hosted = source.section("jobs", JobsTable), read_hosted(source)
    admin_keys = read_keys(source, inspector.admin_keys, "inspector", "admin_keys")
    source.finish()
    config = Config(
        host=server.host,
        port=server.port,
        keys=(*keys, *(each.key for each in named)),
        named_keys=named,
        limits=limits,
        max_body=server.max_body_mb * _MB,
        memory=server.memory_mb * _MB,
        history=server.history_mb * _MB,
        tls_cert=server.tls_cert,
        tls_key=server.tls_key,
        connections_per_address=server.connections_per_address,
        failed_keys_per_minute=server.failed_keys_per_minute,
        reload=server.reload,
        grace=server.grace,
        drain=server.drain,
        request_timeout=server.request_timeout,
        providers=providers,
        models=models,
        store_url=url,
        retention=Retention(store.keep_days * _DAY, store.max_mb * _MB),
        verbose=log.verbose,
        log_file=log.file,
        jobs=jobs,
        hosted=hosted,
        inspector=inspector,
        admin_keys=admin_keys,
        secret_variables=tuple(source.secret_variables),
    )
    if refusal := refuse_start(config):
        source.note(source.wrong(*refusal))
    for where, problem in find_start_mistakes(config) if starting else ():
        source.note(source.wrong(where, problem))
    source.finish()
    return config


def refuse_start(config: Config) -> tuple[Path, str] | None:
    """The setting with which no gateway starts, and why. A reload asks too: it merges two configurations,
    each of which was allowed to start."""
    if not config.loopback and not config.keys:
        return (
            "server",
            "host",
        ), f"Refusing to listen on {config.host} without client keys. Set server.keys."
    if bool(config.tls_cert) != bool(config.tls_key):
        return ("server", "tls_cert"), "tls_cert and tls_key belong together"
    if config.inspector.enabled and config.keys and not config.admin_keys:
        return ("inspector", "enabled"), _NO_ADMIN
    return None


def away_from(config: Config, host: str, port: int) -> Config:
    """Without the addresses in variables that name this gateway itself: whoever pointed agents at it in the
    same shell did not mean that it calls itself."""
    own = (*_LOOPBACK, host)
    back: dict[str, ProviderSettings] = {}
    for name, provider in config.providers.items():
        place = urlsplit(provider.base_url)
        if provider.url_from and place.port == port and place.hostname in own:
            usual = known()[name]
            back[name] = replace(provider, base_url=usual.base_url, url_from="", keeps=usual.keeps)
    return replace(config, providers={**config.providers, **back}) if back else config


def _store_url(source: ConfigSource, store: StoreTable) -> str:
    url = source.secret(("store", "url"), store.url)
    try:
        open_store(url)  # checks the URL; nothing is opened yet
    except ConfigError as error:
        source.note(source.wrong(("store", "url"), str(error)))
    return url
