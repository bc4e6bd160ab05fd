"""What a request to an upstream proves itself with: a key, several values, or a token that expires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

_SECRET = ("key", "id", "secret", "session", "token")  # fields that nobody may see


class Credential(Struct, frozen=True, kw_only=True):
    """`key` is an API key. `id`, `secret`, `session` and `region` sign a request (AWS). `token` is a bearer
    token, `expires` the time in seconds since 1970 at which this credential ends, 0 where it does not.

    A credential that does not change is its own `CredentialSource`.
    """

    key: str = ""
    id: str = ""
    secret: str = ""
    session: str = ""
    region: str = ""
    token: str = ""
    expires: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.key or self.id or self.token)

    def __repr__(self) -> str:
        fields = [f"{name}=***" for name in _SECRET if getattr(self, name)]
        fields += [f"region={self.region!r}"] if self.region else []
        fields += [f"expires={self.expires:g}"] if self.expires else []
        return f"Credential({', '.join(fields)})"

    @property
    def account(self) -> str:
        return self.key or self.id or self.token

    def current(self) -> Credential:
        return self

    async def wait(self) -> Credential:
        return self

    def note_refusal(self) -> bool:
        return False

    def secrets(self) -> Iterable[str]:
        return [value for name in _SECRET if (value := getattr(self, name))]


class CredentialSource(Protocol):
    """Where the credentials of a provider come from."""

    @property
    def account(self) -> str:
        """Tells accounts apart; all credentials of one source have the same."""
        ...

    def current(self) -> Credential | None:
        """The credential for a request that is sent now; None: it must be waited for."""
        ...

    async def wait(self) -> Credential:
        """Raises CredentialFailed where none can be had."""
        ...

    def note_refusal(self) -> bool:
        """The upstream refused the current one. Returns whether another try may have another one."""
        ...

    def secrets(self) -> Iterable[str]:
        """Every text of it that nobody may see, as far as it is known now."""
        ...


NO_CREDENTIAL = Credential()

Refresh = Callable[[], Credential]  # fetches a credential; it may block, and runs in a thread of its own


class MakeRefresh(Protocol):
    """Of a protocol whose credentials are fetched, or come from other variables. `given` is what the
    configuration holds, `options` are the provider's other settings. None: `given` is enough. Raises
    ConfigError where something is missing."""

    def __call__(
        self, given: Credential, options: Mapping[str, str], environ: Mapping[str, str]
    ) -> Credential | Refresh | None: ...
