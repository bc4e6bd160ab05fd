"""The URL of a store: its database, and the URL without its password."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.user_folders import data_folder

_KNOWN = "sqlite:///FILE, memory: or postgresql://USER:PASSWORD@HOST/DATABASE"


class StoreAddress(Struct, frozen=True):
    """`path` is a file or `:memory:`; without one, `url` is PostgreSQL's."""

    url: str
    path: str = ""


def default_url(environ: Mapping[str, str]) -> str:
    """`dragoman.db` in the user's data folder; in the working directory for a user without a home."""
    folder = data_folder(environ)
    return f"sqlite:///{folder / 'dragoman.db' if folder else 'dragoman.db'}"


def read_address(url: str) -> StoreAddress:
    scheme, colon, rest = url.partition(":")
    match scheme:
        case "memory" if colon and not rest:
            return StoreAddress(url, ":memory:")
        case "sqlite" if rest.startswith("///") and len(rest) > 3:
            return StoreAddress(url, rest[3:])  # three slashes: a relative path; four: an absolute one
        case "postgresql" | "postgres" if rest.startswith("//"):
            return StoreAddress(url)
        case _:
            raise ConfigError(f"expected {_KNOWN}; {_show(url)}")


def without_password(text: str, url: str) -> str:
    """`text` with the password of `url` replaced by ***."""
    for password in passwords(url):
        text = text.replace(password, "***")
    return text


def passwords(url: str) -> list[str]:
    """As written in `url`, and percent-decoded."""
    try:
        parts = urlsplit(url)
        found = parts.password or ""
    except ValueError:
        return []
    in_query = [word.partition("=")[2] for word in parts.query.split("&") if word.startswith("password=")]
    return [each for secret in (found, *in_query) for each in {secret, unquote(secret)} if each]


def _show(url: str) -> str:
    """A malformed URL may hold a password anywhere, so only its beginning is shown."""
    return f"got {url.partition(':')[0]!r} before the colon" if ":" in url else "it has no colon"
