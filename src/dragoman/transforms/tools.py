"""Tools as an upstream knows them, and back again: kinds that it does not have become functions, and every
name is legal and unique.

A freeform (custom) tool becomes a function with one string (G90: litellm#31571); a namespaced tool a function
with a longer name (G91: codex#33263); a tool that the client runs and whose schema the model knows (shell,
bash, apply_patch, text editor, memory, computer) a function with that schema (G93).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from hashlib import blake2s
from typing import Any

from msgspec.structs import replace

from dragoman.core import jsontext
from dragoman.core.caches import cached_by_tools
from dragoman.core.codec import ProtocolLimits
from dragoman.core.jsontext import is_array
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, CallKind, HostedTool, ToolCall, ToolDeclaration, ToolResult, Wire
from dragoman.schemas.argument_checker import Checker

_INPUT: Wire = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
# Models that were not trained on such a function use these names for its one parameter as well
_INPUT_NAMES = ("input", "patch", "command", "code", "content", "text")


def _object(required: list[str], **properties: Any) -> Wire:
    return {"type": "object", "properties": properties, "required": required}


def _one_of(*values: str) -> Wire:
    return {"type": "string", "enum": [*values]}


_STRING: Wire = {"type": "string"}
_EDITING: dict[str, Wire] = {
    **dict.fromkeys(("path", "file_text", "old_str", "new_str"), _STRING),
    "insert_line": {"type": "integer"},
    "insert_text": _STRING,
    "view_range": {"type": "array", "items": {"type": "integer"}},
}
_KNOWN: dict[str, tuple[str, Wire]] = {
    "local_shell": (
        "Runs a command on the user's machine and returns its output.",
        _object(
            ["command"],
            command={"type": "array", "items": _STRING},
            working_directory=_STRING,
            timeout_ms={"type": "integer"},
            env={"type": "object", "additionalProperties": _STRING},
            user=_STRING,
        ),
    ),
    "shell": (
        "Runs commands in a shell on the user's machine and returns their output.",
        _object(
            ["commands"],
            commands={"type": "array", "items": _STRING},
            timeout_ms={"type": "integer"},
            max_output_length={"type": "integer"},
        ),
    ),
    "apply_patch": (
        "Creates, updates or deletes one file. `diff` holds the changes in the V4A format: lines that begin "
        "with a space are context, with - are removed, with + are added; @@ begins a section.",
        _object(
            ["type", "path"],
            type=_one_of("create_file", "update_file", "delete_file"),
            path=_STRING,
            diff=_STRING,
        ),
    ),
    "bash": (
        "Runs a command in a persistent bash session; restart begins a new one.",
        _object([], command=_STRING, restart={"type": "boolean"}),
    ),
    "text_editor": (
        "Views, creates and edits text files.",
        _object(["command", "path"], command=_one_of("view", "create", "str_replace", "insert"), **_EDITING),
    ),
    "memory": (
        "Stores and reads notes in files below /memories, which the user keeps between conversations. View "
        "the directory before you begin, and record progress there.",
        _object(
            ["command"],
            command=_one_of("view", "create", "str_replace", "insert", "delete", "rename"),
            **_EDITING,
            old_path=_STRING,
            new_path=_STRING,
        ),
    ),
}


# (namespace, name) as the upstream knows the tool -> what the client declared
Declared = dict[tuple[str, str], AnyTool]


class Flattened:
    """The tools of one request as an upstream with these limits takes them."""

    def __init__(self, tools: Sequence[AnyTool], limits: ProtocolLimits, losses: Losses) -> None:
        self.limits = limits
        self.declared: Declared = {}
        self.checkers: dict[int, Checker | None] = {}  # by the id of a declared tool
        self.usual: dict[str, bool] = {}  # plain functions whose arguments need no repair
        self.names: dict[str, None] = {}  # of the declarations among them
        self.tools: list[AnyTool] = []
        for tool in tools:
            if isinstance(tool, HostedTool):
                self._add_hosted(tool, losses)
            elif not tool.deferred or limits.deferred_tools:
                is_flat = tool.kind == "function" and not tool.namespace
                self._declare(tool, tool if is_flat else _flat(tool, limits, losses), losses)
            elif any(map(_is_search, tools)):
                loaded = replace(tool, deferred=False)
                self._declare(loaded, _flat(loaded, limits, losses), losses)
            else:
                why = f"{tool.name} is deferred. It is sent once it has been loaded."
                losses.changed(tool.where, why, "tool.deferred")

    def _declare(self, tool: AnyTool, flat: ToolDeclaration, losses: Losses) -> None:
        key = (flat.namespace, flat.name)
        if key in self.declared:
            why = f"This is a second tool named {flat.name}. The first one was declared."
            losses.dropped(tool.where, why, "tool.duplicate")
            return
        self.declared[key] = tool
        self.tools.append(flat)
        self.names[flat.name] = None

    def _add_hosted(self, tool: HostedTool, losses: Losses) -> None:
        known = tool.function or _KNOWN.get(tool.kind)
        if tool.kind in self.limits.hosted_tools or known is None:
            self.tools.append(tool)
            return
        description, parameters = deepcopy(known)
        why = f"The hosted {tool.kind} tool was declared as a function."
        losses.changed(tool.where, why, "hosted.function")
        self._declare(
            tool, ToolDeclaration(tool.name or tool.kind, description, parameters, where=tool.where), losses
        )


def _flat(tool: ToolDeclaration, limits: ProtocolLimits, losses: Losses) -> ToolDeclaration:
    if tool.namespace and not limits.namespaces:
        tool = replace(tool, name=flat_name(tool.namespace, tool.name), namespace="")
    if tool.kind == "custom" and not limits.custom_tools:
        why = f"The freeform tool {tool.name} was declared as a function with one string."
        losses.changed(tool.where, why, "tool.custom")
        tool = replace(
            tool, kind="function", description=_describe(tool), parameters=deepcopy(_INPUT), grammar=None
        )
    return tool


def flatten_result(result: ToolResult, limits: ProtocolLimits) -> ToolResult:
    """A result of the history in the same flat form as its call."""
    if result.kind == "function" or _is_native(result.kind, limits):
        return result
    return replace(result, kind="function")


def flatten_call(call: ToolCall, limits: ProtocolLimits, declared: Collection[tuple[str, str]]) -> ToolCall:
    """A call of the history in the flat form; `declared` are (namespace, name) of the tools."""
    if call.namespace and not limits.namespaces:
        flat = flat_name(call.namespace, call.name)
        # OpenAI names a loaded tool's own name as its namespace: then there is none to flatten
        plain = ("", flat) not in declared and ("", call.name) in declared
        call = replace(call, name=call.name if plain else flat, namespace="")
    if call.kind == "function" or _is_native(call.kind, limits):
        return call
    arguments = jsontext.dumps({"input": call.arguments}) if call.kind == "custom" else call.arguments
    return replace(call, kind="function", arguments=arguments)


def _is_native(kind: CallKind, limits: ProtocolLimits) -> bool:
    return limits.custom_tools if kind == "custom" else kind in limits.hosted_tools


@cached_by_tools
def flatten(tools: tuple[AnyTool, ...], losses: Losses, limits: ProtocolLimits) -> Flattened:
    return Flattened(tools, limits, losses)


def flat_name(namespace: str, name: str) -> str:
    return f"{namespace}__{name}"


_OWN_CALLS = (
    "local_shell",
    "shell",
    "apply_patch",
    "computer",
)  # kinds of tools whose calls are of that kind


def unflatten(call: ToolCall, declared: AnyTool | None) -> ToolCall:
    """A finished call as the client declared its tool."""
    if type(declared) is not ToolDeclaration:
        if declared is None or declared.name or declared.kind not in _OWN_CALLS:
            return call
        return replace(call, kind=declared.kind)
    if call.name != declared.name or call.namespace != declared.namespace:
        call = replace(call, name=declared.name, namespace=declared.namespace)
    if declared.kind == "custom" and call.kind == "function":
        return replace(call, kind="custom", arguments=freeform(call.arguments, declared.name))
    return call


def freeform(arguments: str, tool: str = "") -> str:
    """The raw text inside `{"input": …}`, whatever the model called the parameter.

    The patch of `apply_patch` is taken out of code fences, a heredoc or a command line, which Codex would
    refuse (G90: CLIProxyAPI#5753).
    """
    text = _input_text(arguments)
    patch = _PATCH.search(text) if tool == "apply_patch" else None
    return patch[0] if patch and patch[0] != text.strip() else text


_PATCH = re.compile(r"^[*]{3} Begin Patch$.*^[*]{3} End Patch$", re.MULTILINE | re.DOTALL)


def _input_text(arguments: str) -> str:
    value = jsontext.decode_object(arguments)
    if value is None:
        return arguments
    if is_array(command := value.get("command")) and command:  # as for a shell: ["apply_patch", "…"]
        return str(command[-1])
    for name in _INPUT_NAMES:
        if isinstance(found := value.get(name), str):
            return found
    only = next(iter(value.values())) if len(value) == 1 else None
    return only if isinstance(only, str) else arguments


def fit_kind(call: ToolCall, limits: ProtocolLimits) -> ToolCall:
    """A finished call for a client with these limits: a plain function call, where it knows no other kind."""
    is_known = call.kind == "function" or _is_native(call.kind, limits)
    if is_known and (limits.namespaces or not call.namespace):
        return call
    arguments = jsontext.dumps({"input": call.arguments}) if call.kind == "custom" else call.arguments
    return replace(call, kind="function", arguments=arguments, namespace="")


def _describe(tool: ToolDeclaration) -> str:
    """The description with the grammar, which the upstream cannot enforce."""
    if tool.grammar is None:
        return tool.description
    syntax, definition = tool.grammar
    return f"{tool.description}\n\nThe input must match this {syntax} grammar:\n{definition}".strip()


def _is_search(tool: AnyTool) -> bool:
    return isinstance(tool, HostedTool) and tool.kind == "tool_search"


_PREFIX = re.compile(r"^(?:default_api|functions|tools?)[.:/]", re.IGNORECASE)


class Names:
    """The names of one exchange. A name that is legal keeps its spelling; every other gets one of its own.

    Providers differ in alphabet and length (G85: pydantic-ai#4713, codex#8694).
    """

    def __init__(self, names: Iterable[str], limits: ProtocolLimits) -> None:
        alphabet = re.compile(limits.tool_name)
        wanted = list(dict.fromkeys(names))
        self._legal: dict[str, str] = {}
        self._back: dict[str, str] = {}
        for name in wanted:
            if len(name) <= limits.tool_name_length and alphabet.fullmatch(name):
                self._legal[name] = self._back[name] = name
        for name in wanted:
            if name not in self._legal:
                spelled = _spell(name, limits.tool_name_length, self._back)
                self._legal[name], self._back[spelled] = spelled, name
        self.changed = any(name != spelled for name, spelled in self._legal.items())

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """Those that are spelled otherwise, and how."""
        return tuple([(name, spelled) for name, spelled in self._legal.items() if name != spelled])

    def encode(self, name: str) -> str:
        return self._legal.get(name, name)

    def decode(self, name: str) -> str:
        return self._back.get(name, name)


@lru_cache(maxsize=256)
def names_for(names: tuple[str, ...], limits: ProtocolLimits) -> Names:
    """An agent declares the same tools in every request of a conversation."""
    return Names(names, limits)


def recognise(name: str, declared: Iterable[str]) -> str:
    """The declared name that a model meant by `default_api:read`, `functions.Read` or `read` (G86:
    CLIProxyAPI 01a7cc4a).

    Only a unique match counts; anything else stays as the model wrote it.
    """
    declared = tuple(declared)
    if not declared or name in declared:
        return name
    bare = _PREFIX.sub("", name)
    for meant in (bare, name):
        if meant in declared:
            return meant
        found = [known for known in declared if known.lower() == meant.lower()]
        if len(found) == 1:
            return found[0]
    return name


def _spell(name: str, length: int, taken: dict[str, str]) -> str:
    """Keep the legal characters; a hash distinguishes names that would become equal."""
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", name) or "tool"
    if not re.match(r"[a-zA-Z_]", readable):
        readable = f"_{readable}"
    if len(readable) <= length and readable not in taken:
        return readable
    digest = blake2s(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{readable[: length - 9]}_{digest[:8]}"
