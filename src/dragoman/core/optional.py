"""Optional dependencies: which extra installs which modules, and an error that names the install command.

Code that needs an extra calls `require` before it imports the modules: a missing one is one readable line
instead of a traceback from inside an import.
"""

from __future__ import annotations

from importlib import import_module

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
        return f"{self.module} is not installed: python -m pip install 'dragoman[{self.extra}]'"


def require(extra: str) -> None:
    """Raise MissingExtraError unless every module of `extra` can be imported."""
    for module in MODULES[extra]:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise MissingExtraError(error.name or module, extra) from None
