"""The secrets of a configuration, out of whatever is shown: errors, logs, wires, recordings."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.core.credentials import Credential, CredentialSource
from dragoman.gateway.config import Config
from dragoman.gateway.conversations.store.addresses import passwords
from dragoman.recording.redaction import HIDDEN, SECRET_NAME, SHORTEST


class Redactor:
    """Knows the secrets of a configuration, those that are fetched later included."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: tuple[str, ...] = ()
        self._sources: tuple[CredentialSource, ...] = ()
        self._add(secrets)

    def add(self, config: Config) -> None:
        """Secrets of a new configuration; the old ones stay secret."""
        self._add(secrets_of(config))
        sources = [source for provider in config.providers.values() for source in provider.sources]
        self._sources += tuple([source for source in sources if not isinstance(source, Credential)])

    def _add(self, secrets: Iterable[str]) -> None:
        known = {*self._secrets, *(each for each in secrets if len(each) >= SHORTEST)}
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def secrets(self) -> tuple[str, ...]:
        if not self._sources:
            return self._secrets
        return (*self._secrets, *(secret for source in self._sources for secret in source.secrets()))

    def clean(self, text: str, *more: str) -> str:
        """`text` without the secrets, those of this exchange (`more`) included."""
        for secret in (*self.secrets(), *(each for each in more if len(each) >= SHORTEST)):
            if secret in text:
                text = text.replace(secret, HIDDEN)
            if secret[:SHORTEST] in text[-len(secret) :]:  # it may have been cut off at the end
                text = _without_beginning(text, secret)
        return text


def _without_beginning(text: str, secret: str) -> str:
    """`text` without the first characters of `secret` at its end."""
    for length in range(len(secret) - 1, SHORTEST - 1, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + HIDDEN
    return text


def secrets_of(config: Config) -> Iterable[str]:
    yield from config.keys
    yield from config.admin_keys
    yield from passwords(config.store_url)
    if hosted := config.hosted:
        yield hosted.web_search.api_key if hosted.web_search else ""
        for server in hosted.mcp.servers.values():
            yield from (*server.headers.values(), *server.environ.values())
    for provider in config.providers.values():
        yield from [secret for source in provider.sources for secret in source.secrets()]
        yield from (value for name, value in provider.headers.items() if SECRET_NAME.search(name))
