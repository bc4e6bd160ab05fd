"""`python tools/wire_watch.py`: what the installed vendor SDKs know of each wire and our codecs do not name.

It walks the types of requests, replies and stream events, and collects the names of their fields and the
words that tell kinds apart (`type: web_search_call`). A name that stands in no code of the protocol's folder
is not taken: it goes back to its own protocol as it came, and is a reported loss elsewhere. Whoever has read
about such names and left them so adds them to tools/wire_watch.toml, under the reason:

    python tools/wire_watch.py --accept "Why they mean nothing to other protocols"

Exit code 1: there is something new. `make wire-watch` installs the newest SDKs first.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
import tomllib
import typing
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union

ROOT = Path(__file__).parent.parent
PROTOCOLS = ROOT / "src" / "dragoman" / "protocols"
ACCEPTED = ROOT / "tools" / "wire_watch.toml"
_HEADER = """# What the SDKs name and our code does not, below the reason. Such a field or part goes back to
# its own protocol unchanged, and is a reported loss elsewhere. `python tools/wire_watch.py --accept REASON`
# adds what is new, and takes out what our code names by now.
"""
_WIDTH = 110
# Fields whose words tell kinds of parts, events and ends apart
TELLING = frozenset({"type", "role", "status", "stop_reason", "finish_reason", "finishReason", "stopReason"})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

# protocol -> the SDK, the folders and files that speak it, and where its types begin
WIRES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "anthropic": (
        "anthropic",
        ("anthropic",),
        (
            "anthropic.types.message_create_params:MessageCreateParamsNonStreaming",
            "anthropic.types:Message",
            "anthropic.types:RawMessageStreamEvent",
        ),
    ),
    "openai-chat": (
        "openai",
        ("openai_chat", "openai.py"),
        (
            "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming",
            "openai.types.chat:ChatCompletion",
            "openai.types.chat:ChatCompletionChunk",
        ),
    ),
    "openai-responses": (
        "openai",
        ("openai_responses", "openai.py"),
        (
            "openai.types.responses.response_create_params:ResponseCreateParamsNonStreaming",
            "openai.types.responses:Response",
            "openai.types.responses:ResponseStreamEvent",
        ),
    ),
    "gemini": (
        "google-genai",
        ("gemini", "google.py"),
        (
            "google.genai.types:Content",
            "google.genai.types:GenerationConfig",
            "google.genai.types:Tool",
            "google.genai.types:ToolConfig",
            "google.genai.types:GenerateContentResponse",
        ),
    ),
    "gemini-interactions": (
        "google-genai",
        ("gemini_interactions", "google.py"),
        (
            "google.genai._gaos.types.interactions.createmodelinteraction:CreateModelInteraction",
            "google.genai._gaos.types.interactions.interaction:Interaction",
            "google.genai._gaos.types.interactions.interactionsseevent:InteractionSSEEvent",
        ),
    ),
    "bedrock-converse": (
        "botocore",
        ("bedrock_converse", "aws.py"),
        ("botocore:Converse", "botocore:ConverseStream"),
    ),
}


def new_names(wire: str) -> list[str]:
    """The names that neither our code nor the list of accepted ones knows."""
    accepted = {name for names in accepted_names().get(wire, {}).values() for name in names}
    return [name for name in unread_names(wire) if name not in accepted]


def unread_names(wire: str) -> list[str]:
    """The names that our code does not know."""
    known = known_names(wire)
    return sorted(name for name in {*names_of(WIRES[wire][2])} if name.rpartition(": ")[2] not in known)


def known_names(wire: str) -> set[str]:
    return {word for folder in WIRES[wire][1] for word in named_in(PROTOCOLS / folder)}


def accepted_names() -> dict[str, dict[str, list[str]]]:
    """wire -> reason -> names"""
    return tomllib.loads(ACCEPTED.read_text("utf-8")) if ACCEPTED.exists() else {}


# What our code names


def named_in(path: Path) -> Iterator[str]:
    """Every word in a string of the code, and the fields of its types; docstrings do not count."""
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        yield from _words(ast.parse(file.read_text("utf-8")))


def _words(tree: ast.AST) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str | bytes)
            and id(node) not in docstrings
        ):
            text = node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
            yield text
            yield from _WORD.findall(text)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


# What the SDKs name


def names_of(roots: tuple[str, ...]) -> Iterator[str]:
    for root in roots:
        module, _, name = root.partition(":")
        if module == "botocore":
            yield from _names_of_shapes(name)
            continue
        yield from names_of_type(getattr(import_module(module), name))


def names_of_type(root: Any) -> Iterator[str]:
    """Of a type and all types that it holds: fields, and `field: word` for those that tell kinds apart."""
    waiting, seen = [root], set[int]()
    while waiting:
        kind = waiting.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        for name, annotation in _fields(kind):
            yield name
            if name in TELLING:
                yield from (f"{name}: {word}" for word in _literals(annotation))
            waiting.append(annotation)
        waiting += typing.get_args(kind) if not _is_literal(kind) else ()
        if (value := getattr(kind, "__value__", None)) is not None:  # `type X = …`
            waiting.append(value)


def _fields(kind: Any) -> list[tuple[str, Any]]:
    """The fields of a model or a TypedDict, as the wire spells them."""
    if models := getattr(kind, "model_fields", None):
        return [(field.alias or name, field.annotation) for name, field in models.items()]
    if hasattr(kind, "__required_keys__"):  # a TypedDict, of typing_extensions too
        return list(typing.get_type_hints(kind).items())
    return []


def _is_literal(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Literal


def _literals(annotation: Any) -> Iterator[str]:
    if _is_literal(annotation):
        yield from (word for word in typing.get_args(annotation) if isinstance(word, str))
    elif typing.get_origin(annotation) in (Union, UnionType, typing.Annotated, typing.Required):
        for inner in typing.get_args(annotation):
            yield from _literals(inner)
    elif members := getattr(annotation, "__members__", None):  # an enum of google-genai
        yield from (str(member.value) for member in members.values())


def _names_of_shapes(operation: str) -> Iterator[str]:
    session: Any = import_module("botocore.session").get_session()
    found = session.get_service_model("bedrock-runtime").operation_model(operation)
    waiting, seen = [found.input_shape, found.output_shape], set[str]()
    while waiting:
        shape = waiting.pop()
        if shape is None or shape.name in seen:
            continue
        seen.add(shape.name)
        if shape.type_name == "structure":
            for name, member in shape.members.items():
                yield name
                if name in TELLING:
                    yield from (f"{name}: {word}" for word in getattr(member, "enum", ()))
                waiting.append(member)
        elif shape.type_name in ("list", "map"):
            waiting.append(shape.member if shape.type_name == "list" else shape.value)


def accept(reason: str) -> None:
    """Adds what is new under its reason, and takes out what is read by now."""
    lines, accepted = [_HEADER], accepted_names()
    for wire in WIRES:
        groups = accepted.get(wire, {})
        if new := new_names(wire):
            groups[reason] = groups.get(reason, []) + new
        unread = {*unread_names(wire)}
        lines.append(f"[{wire}]")
        for why, names in groups.items():
            lines += _group(why, sorted({*names} & unread))
        lines.append("")
    ACCEPTED.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


def _group(why: str, names: list[str]) -> list[str]:
    text = textwrap.wrap(
        ", ".join(f'"{name.replace(" ", _NO_BREAK)}"' for name in names), _WIDTH - 4, break_on_hyphens=False
    )
    listed = [f"    {line.replace(_NO_BREAK, ' ')}" for line in text]
    return [f'"{why}" = [', *listed, "]"] if names else []


_NO_BREAK = "\0"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accept", metavar="REASON", help="add what is new to tools/wire_watch.toml")
    if reason := parser.parse_args().accept:
        accept(reason)
        return 0
    found = {wire: new_names(wire) for wire in WIRES}  # all of them before the first line of the report
    for wire, names in found.items():
        package = WIRES[wire][0]
        print(f"## {wire} ({package} {version(package)}): {len(names) or 'nothing'} new")
        for name in names:
            print(f"- `{name}`")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
