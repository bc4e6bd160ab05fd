"""The user's own folders, as the platform names them: configuration and data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def config_folder(environ: Mapping[str, str]) -> Path | None:
    """%APPDATA%, ~/Library/Application Support, or $XDG_CONFIG_HOME (~/.config); None without a home."""
    return _folder(environ, "APPDATA", "XDG_CONFIG_HOME", ".config")


def data_folder(environ: Mapping[str, str]) -> Path | None:
    """%LOCALAPPDATA%, ~/Library/Application Support, or $XDG_DATA_HOME (~/.local/share); or None."""
    return _folder(environ, "LOCALAPPDATA", "XDG_DATA_HOME", ".local/share")


def _folder(environ: Mapping[str, str], windows: str, xdg: str, default: str) -> Path | None:
    home = environ.get("HOME")
    if sys.platform == "win32":
        base = environ.get(windows)
    elif sys.platform == "darwin":
        base = home and f"{home}/Library/Application Support"
    else:
        base = environ.get(xdg) or (home and f"{home}/{default}")
    return Path(base, "dragoman") if base else None
