"""What a row of a dataset looks like: which column holds the conversation, and in whose words.

A public layout is a row of `LAYOUTS`. A protocol is a layout too: its wire in a column of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.core.errors import ConfigError, describe_unknown
from dragoman.core.losses import Losses
from dragoman.core.model import Request, Wire
from dragoman.datasets import sharegpt
from dragoman.protocols import codec, names


class Layout(Struct, frozen=True):
    """`column` holds the conversation, alone or as a whole body. Where it is alone, the other columns that
    belong to it are `texts`, and `fields` that may also stand there as JSON text.

    `protocol` is whose wire it is; without one, `decode` and `encode` read and write it.
    """

    column: str
    protocol: str = ""
    fields: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    decode: Callable[[Wire, Losses], Request] | None = None
    encode: Callable[[Request, Losses], Wire] | None = None


LAYOUTS = {
    # https://platform.openai.com/docs/guides/supervised-fine-tuning
    "openai-fine-tuning": Layout("messages", "openai-chat", ("tools", "parallel_tool_calls", "functions")),
    # https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md
    "sharegpt": Layout(
        "conversations",
        texts=("system", "tools"),
        decode=sharegpt.decode_request,
        encode=sharegpt.encode_request,
    ),
    # https://github.com/sierra-research/tau-bench: `traj` of a result
    "tau-bench": Layout("traj", "openai-chat"),
    # Protocols whose system text stands beside the conversation
    "openai-responses": Layout("input", "openai-responses", ("tools",), ("instructions",)),
    "anthropic": Layout("messages", "anthropic", ("tools", "system")),
    "gemini": Layout("contents", "gemini", ("tools", "systemInstruction", "system_instruction")),
}


def layout_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names(), *LAYOUTS)))


def layout(name: str) -> Layout:
    """The layout of that name; of any other protocol the conversation and its tools."""
    if name in LAYOUTS:
        return LAYOUTS[name]
    if name not in names():
        raise ConfigError(describe_unknown("layout", name, layout_names()))
    return Layout(codec(name).turns, name, ("tools",))
