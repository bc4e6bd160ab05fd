"""Optional dependencies: which extra installs which modules, and an error that names the install command.

Code that needs an extra calls `require` before it imports the modules: a missing one is one readable line
instead of a traceback from inside an import.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.core import jsontext
from dragoman.core.errors import DragomanError

MODULES = {
    "aws": ("awscrt",),
    "cli": ("rich",),
    "client": ("httptools",),
    "datasets": ("pyarrow",),
    "gateway": ("httptools", "prometheus_client", "websockets"),
    "hosted": ("html_to_markdown", "mcp", "pypdf"),
    "import": ("yaml",),
    "mcp": ("httptools", "mcp"),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "postgres": ("asyncpg", "pgqueuer"),
    "ray": ("pyarrow", "ray.data"),
    "vertex": ("google.auth", "requests"),
}


class MissingExtraError(DragomanError, ImportError):
    """A module of an extra is not installed; the message names the command that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        self.module: str = module
        self.extra: str = extra
        super().__init__(module, extra)

    def __str__(self) -> str:
        return f"{self.module} is not installed: {install_command(self.extra)}"


def require(extra: str) -> None:
    """Raise MissingExtraError unless every module of `extra` can be imported."""
    for module in MODULES[extra]:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or module, extra) from None


def install_command(extra: str) -> str:
    """What adds `extra` to this installation: from its clone or archive, or from the index it came from."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to load, and rarely needed

    try:  # PEP 610: pip writes it for everything that no index gave
        origin = jsontext.decode(distribution("dragoman").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # run from the source, without an installation
        origin = {"url": Path(__file__).parents[3].as_uri(), "dir_info": dict[str, bool]()}
    return f"python -m pip install {_requirement(origin, extra)}"


def _requirement(origin: dict[str, Any], extra: str) -> str:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    match origin:
        case {"dir_info": about, "url": str(url)}:
            folder = Path(url2pathname(urlsplit(url).path))
            name = "." if folder == Path.cwd() else str(folder)
            return f"{'-e ' if about.get('editable') else ''}'{name}[{extra}]'"
        case {"vcs_info": {"vcs": vcs, "commit_id": commit}, "url": str(url)}:
            return f"'dragoman[{extra}] @ {vcs}+{url}@{commit}'"
        case {"url": str(url)}:
            return f"'dragoman[{extra}] @ {url}'"
        case _:
            return f"'dragoman[{extra}]'"
