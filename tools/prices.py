"""`python tools/prices.py CHECKOUT`: writes profiles/prices.toml from a clone of anomalyco/models.dev.

Only text prices are taken. Rows without a price, free previews, and models whose reasoning, audio output or
embeddings have a price of their own are left out: an unknown price is better than a wrong one.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "src" / "dragoman" / "profiles" / "prices.toml"
# our provider -> the folder of models.dev
PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google-ai-studio": "google",
    "groq": "groq",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "moonshot": "moonshotai",
    "zai": "zai",
    "xai": "xai",
    "together": "togetherai",
    "fireworks": "fireworks-ai",
    "cerebras": "cerebras",
    "dashscope": "alibaba",
    "deepinfra": "deepinfra",
    "baseten": "baseten",
    "cohere": "cohere",
    "minimax": "minimax",
}
NAMES = {"input": "input", "cache_read": "cached_input", "cache_write": "cache_write", "output": "output"}
OTHER_UNITS = (
    "embed",
    "image",
    "tts",
    "whisper",
    "realtime",
    "audio",
    "omni",
    "rerank",
    "guard",
    "asr",
    "livetranslate",
)
HEAD = """# Prices in US dollars per million tokens, by provider and model.
# `cached_input`: tokens read from the prompt cache; `cache_write`: tokens written to it;
# `tiers`: the prices of a whole request whose input is `above` so many tokens.
# Written by tools/prices.py; correct a price in dragoman.toml (docs/how-to/prices-and-models.md), not here.

"""  # fmt: skip


def generated(checkout: str) -> str:
    day = _git(checkout, "log", "-1", "--format=%cs").strip()
    text = (
        HEAD + f'date = "{day}"\nsource = "anomalyco/models.dev, which collects the vendors\' price pages"\n'
    )
    for provider, folder in PROVIDERS.items():
        text += f"\n[{provider}]\n"
        for path in _git(
            checkout, "ls-tree", "-r", "--name-only", "HEAD", f"providers/{folder}/models"
        ).split():
            model = path.split("/models/", 1)[1].removesuffix(".toml")
            cost = tomllib.loads(_git(checkout, "show", f"HEAD:{path}")).get("cost")
            # an alias that moves on has no price of its own; the reply names the model behind it
            moving = model.endswith("-latest") and not model.endswith("chat-latest")
            if (
                cost
                and not moving
                and not any(word in model.lower() for word in OTHER_UNITS)
                and (row := _row(cost))
            ):
                text += f'"{model}" = {row}\n'
    return text


def _row(cost: dict[str, Any]) -> str:
    if not cost.get("input") or not cost.get("output") or "reasoning" in cost or "output_audio" in cost:
        return ""
    tiers = [f"{{ above = {tier['tier']['size']:_}, {_prices(tier)} }}" for tier in cost.get("tiers", ())]
    listed = f", tiers = [{', '.join(tiers)}]" if tiers else ""
    return f"{{ {_prices(cost)}{listed} }}"


def _prices(cost: dict[str, Any]) -> str:
    """A cache price of 0 stands for an unknown one there."""
    return ", ".join(f"{ours} = {cost[theirs]:g}" for theirs, ours in NAMES.items() if cost.get(theirs))


def _git(checkout: str, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", checkout, *arguments], capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    FILE.write_text(generated(sys.argv[1]), encoding="utf-8")
