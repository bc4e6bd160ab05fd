"""What a gateway finds wrong only when it starts: files, the certificate, and what hosted tools need. `check`
and `serve` look before anything listens."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path as File
from typing import TYPE_CHECKING

from dragoman.core.errors import ConfigError
from dragoman.core.optional import MissingExtraError, require
from dragoman.gateway.config.source import Path
from dragoman.hosted.settings import HostedSettings

if TYPE_CHECKING:
    from dragoman.gateway.config import Config


def find_start_mistakes(config: Config) -> Iterator[tuple[Path, str]]:
    """The setting of each, and what is wrong."""
    try:
        server_tls(config)
    except ConfigError as error:
        yield ("server", "tls_cert"), str(error)
    if config.log_file and (problem := _why_unwritable(File(config.log_file))):
        yield ("log", "file"), problem
    inspector = config.inspector
    if inspector.enabled and inspector.keep and inspector.path:
        file = File(inspector.path).absolute()
        folder = next(each for each in file.parents if each.exists())  # the others will be made
        if problem := _why_unwritable(file if folder == file.parent else folder / file.name):
            yield ("inspector", "path"), problem
    if config.hosted:
        yield from _find_hosted_mistakes(config.hosted)


def server_tls(config: Config) -> ssl.SSLContext | None:
    if not config.tls_cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"tls_cert and tls_key cannot be used: {reason}") from None
    return context


def _why_unwritable(file: File) -> str:
    if not file.parent.is_dir():
        return f"There is no folder {file.parent}."
    if file.is_dir():
        return "That is a folder. Name a file."
    return (
        "" if os.access(file if file.exists() else file.parent, os.W_OK) else "That file cannot be written."
    )


def _find_hosted_mistakes(settings: HostedSettings) -> Iterator[tuple[Path, str]]:
    from dragoman.hosted.mcp_tools import McpExecutor
    from dragoman.hosted.search import find_backend
    from dragoman.http.client import Client

    if settings.mcp.enabled or settings.mcp.servers:
        try:
            require("mcp")
        except MissingExtraError as error:
            yield ("hosted", "mcp"), str(error)
    if search := settings.web_search:
        try:
            find_backend(search, Client(), McpExecutor(settings.mcp))
        except ConfigError as error:
            yield ("hosted", "web_search"), str(error)
