"""One map over the rows of a dataset, for any engine.

`translate` takes a table and gives a table. `translate_files` maps files in many processes and resumes.
`RowTranslator` is the map itself, without Arrow. `dragoman.datasets.ray` puts it on Ray Data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.datasets.layouts import LAYOUTS, Layout, layout_names
from dragoman.datasets.loss_report import CodeCount, LossReport
from dragoman.datasets.rows import RowTranslator, TranslatedRow, Translation

if TYPE_CHECKING:
    from dragoman.datasets.generation import generate
    from dragoman.datasets.local import translate_files
    from dragoman.datasets.tables import report, translate

__all__ = [
    "LAYOUTS",
    "CodeCount",
    "Layout",
    "LossReport",
    "RowTranslator",
    "TranslatedRow",
    "Translation",
    "generate",
    "layout_names",
    "report",
    "translate",
    "translate_files",
]
# What needs the extra is loaded when it is first used
_MODULES = {
    "generate": "generation",
    "report": "tables",
    "translate": "tables",
    "translate_files": "local",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'dragoman.datasets' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.datasets.{_MODULES[name]}"), name)
