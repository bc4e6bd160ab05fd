"""Files of the shapes that public repositories have, imported whole: nothing is lost without a word.

They are in the folder `litellm`, and written for this test. Each leaf of a file is in the result, or a
finding names its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.gateway.config import load
from dragoman.gateway.config.importers.litellm import import_litellm
from dragoman.gateway.upstreams.routing import route
from dragoman.profiles import known

FOLDER = Path(__file__).with_name("litellm")
SHAPES = {file.stem: file.read_text("utf-8") for file in sorted(FOLDER.glob("*.yaml"))}


KEYS = {name: "x" for provider in known().values() for name in provider.key_variables}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from leaves(each, f"{path}[{place}]")
    else:
        yield path, value


def spellings(value: Any) -> Iterator[str]:
    """How the result may say `value`."""
    text = str(value)
    yield from (text, text.rstrip("/"), text.lower(), text.rpartition("os.environ/")[2], text.strip("${}"))
    yield text.partition("/")[2]  # a model without its provider
    yield text.rpartition("/")[2]
    if isinstance(value, int | float):
        yield from (f"{float(value)}", f"{value * 1_000_000:.6g}")


def is_named(path: str, places: list[str]) -> bool:
    """By a finding at the leaf, or at what it is part of."""
    return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_each_leaf_is_carried_over_or_named(source: str):
    imported = import_litellm(source)
    load(imported.text, imported.stand_ins)
    places = [finding.path for finding in imported.findings]
    said = [finding.what for finding in imported.findings]
    lost = [
        path
        for path, value in leaves(yaml.safe_load(source))
        if value is not None
        and not is_named(path, places)
        and not any(text and text in imported.text for text in spellings(value))
        and not any(f"reads {text} by itself" in what for text in spellings(value) for what in said)
        and not (path.endswith("order") and any("of the lowest order" in what for what in said))
        and not path.endswith("thinking.type")  # it says that there is a budget, or that it is 0
    ]
    assert lost == []


def wanted(source: str, places: list[str]) -> dict[str, set[str]]:
    """By the name that a client asks for: the models that LiteLLM asks first, those of the lowest order."""
    listed: dict[str, dict[float, set[str]]] = {}
    for place, entry in enumerate(yaml.safe_load(source)["model_list"]):
        name = entry.get("model_name") if isinstance(entry, dict) else None
        if not name or "*" in name or is_named(f"model_list[{place}].litellm_params", places):
            continue
        params = entry["litellm_params"]
        listed.setdefault(name, {}).setdefault(params.get("order", 1), set()).add(params["model"])
    return {name: orders[min(orders)] for name, orders in listed.items()}


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_each_name_asks_for_the_models_that_it_asked_for(source: str):
    imported = import_litellm(source)
    config = load(imported.text, {**imported.stand_ins, **KEYS})
    for name, models in wanted(source, [finding.path for finding in imported.findings]).items():
        first = {target.model for target in route(config, name) if target.group == 0}
        assert all(any(model.endswith(each) for model in models) for each in first), (name, first)
        assert all(any(model.endswith(each) for each in first) for model in models), (name, first)
