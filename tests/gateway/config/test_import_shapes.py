"""Files of the shapes that public repositories have, imported whole: nothing is lost without a word.

They are in the folder `litellm`, and written for this test. Each leaf of a file is in the result, or a
finding names its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.gateway.config import Config, load
from dragoman.gateway.config.importers.litellm import import_litellm
from dragoman.gateway.upstreams.routing import UnknownModel, route

FOLDER = Path(__file__).with_name("litellm")
SHAPES = {file.stem: file.read_text("utf-8") for file in sorted(FOLDER.glob("*.yaml"))}


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


def answered_by(config: Config, name: str) -> bool:
    """By a target, or by one that only lacks its key here."""
    try:
        return bool(route(config, name))
    except UnknownModel as error:
        return "none of them has a key" in str(error)


@pytest.mark.parametrize("source", SHAPES.values(), ids=SHAPES)
def test_each_name_is_served_or_named(source: str):
    imported = import_litellm(source)
    keys = dict.fromkeys(re.findall(r"[A-Z_]+_(?:KEY|TOKEN)\b", source), "x")
    config = load(imported.text, {**imported.stand_ins, **keys, "OPENAI_API_KEY": "x", "GROQ_API_KEY": "x"})
    places = [finding.path for finding in imported.findings]
    for place, entry in enumerate(yaml.safe_load(source)["model_list"]):
        name = entry.get("model_name") if isinstance(entry, dict) else None
        if name and "*" not in name and not is_named(f"model_list[{place}].litellm_params", places):
            assert answered_by(config, name)
