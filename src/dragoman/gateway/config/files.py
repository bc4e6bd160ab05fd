"""Which configuration file is in force.

In this order: the one that `--config` or DRAGOMAN_CONFIG names; `dragoman.toml` in the working directory, if
the user has trusted it; `dragoman.toml` in the user's configuration folder; none. A local file that is not
trusted is ignored: it decides where the user's keys are sent, and may come with a cloned repository.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.core.errors import ConfigError
from dragoman.user_folders import config_folder

DEFAULT_FILE = "dragoman.toml"
_TRUSTED = "trusted.json"  # absolute path -> SHA-256 of the content that was trusted


class ConfigFile(Struct, frozen=True):
    """The file in force, empty where there is none; `ignored`: why the local one is not used."""

    path: str = ""
    text: str = ""
    ignored: str = ""


def find_config(path: str | None, environ: Mapping[str, str]) -> ConfigFile:
    if chosen := path or environ.get("DRAGOMAN_CONFIG"):
        data = _read(Path(chosen))
        if data is None:
            raise ConfigError(f"There is no file {chosen}.")
        return ConfigFile(chosen, _text(chosen, data))
    ignored = ""
    if (data := _read(Path(DEFAULT_FILE))) is not None:
        digest = _read_trusted(environ).get(str(Path(DEFAULT_FILE).resolve()))
        if digest == _digest(data):
            return ConfigFile(DEFAULT_FILE, _text(DEFAULT_FILE, data))
        ignored = f"{DEFAULT_FILE} {'has changed since it was' if digest else 'is not'} trusted"
    folder = config_folder(environ)
    own = folder / DEFAULT_FILE if folder else None
    data = _read(own) if own else None
    if data is None:
        return ConfigFile(ignored=ignored)
    return ConfigFile(str(own), _text(str(own), data), ignored)


def trust(file: Path, environ: Mapping[str, str], trusted: bool = True) -> None:
    """Remember the file with its content; a change of the content ends the trust."""
    folder = config_folder(environ)
    if folder is None:
        raise ConfigError(
            "There is no home directory to remember it in. Set HOME or XDG_CONFIG_HOME, or use --config."
        )
    files = _read_trusted(environ)
    files.pop(str(file.resolve()), None)
    if trusted:
        files[str(file.resolve())] = _digest(_read(file) or b"")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = folder / f"{_TRUSTED}.{os.getpid()}"
    part.write_bytes(msgspec.json.format(msgspec.json.encode(files)))
    part.replace(folder / _TRUSTED)


def _read_trusted(environ: Mapping[str, str]) -> dict[str, str]:
    folder = config_folder(environ)
    data = _read(folder / _TRUSTED) if folder else None
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{file}: {error}") from None


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")  # editors of Windows begin a file with a mark
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: {error}") from None
