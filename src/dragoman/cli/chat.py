"""`dragoman chat`: a conversation in the terminal. Lines that begin with `/` are commands.

Without a terminal (a pipe) each line of stdin is a prompt, and only the answers go to stdout.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from dragoman.cli.default_model import choose_model
from dragoman.cli.models import summary
from dragoman.cli.session import (
    Approver,
    ChatHistory,
    SessionOptions,
    TerminalSession,
    list_conversations,
    open_session,
    session_options,
    set_system,
    user_message,
)
from dragoman.client import Conversation, SystemMessage, Tool, models
from dragoman.core.errors import DragomanError, describe_unknown
from dragoman.profiles import known
from dragoman.toolkit import standard_tools

PROMPT, MORE = "> ", "… "
EXAMPLES = """\b
Examples:
  dragoman chat --model demo:any                # no key needed
  dragoman chat --tool all --root ~/project     # calls are shown, and confirmed where they change something
  dragoman chat -c                              # continue the latest conversation
"""


@click.command(epilog=EXAMPLES)
@session_options
@click.option("--list", "lists", is_flag=True, help="List the latest conversations.")
def command(options: SessionOptions, lists: bool) -> int:
    """Talk with a model. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat.

    A line that ends with a backslash continues on the next one. Text between two lines of \"\"\" is one
    prompt.
    """
    if lists:
        click.echo("\n".join(list_conversations(ChatHistory(os.environ))))
        return 0
    with open_session(options, approver=Approver(remembers=True)) as session:
        return Chat(session).run()


class Chat:
    def __init__(self, session: TerminalSession) -> None:
        self._session = session
        self._interactive = sys.stdin.isatty()
        self._attached: dict[str, list[str]] = {"images": [], "files": []}
        self._given = list(session.tools)  # by --tool and --mcp
        self._commands: dict[str, tuple[str, str, Callable[[str], object]]] = {
            "help": ("", "this list", self._help),
            "model": ("[PROVIDER:MODEL]", "show or change the model", self._model),
            "models": ("[PROVIDER]", "the models of a provider", self._models),
            "tools": ("[NAME … | all | none]", "show or choose the tools of the model", self._choose),
            "system": ("[TEXT]", "show or change the system prompt", self._system),
            "image": ("FILE|URL", "attach an image to the next prompt", partial(self._attach, "images")),
            "file": ("FILE|URL", "attach a file to the next prompt", partial(self._attach, "files")),
            "undo": ("", "remove the last prompt and its answer", self._undo),
            "retry": ("", "ask the last prompt again", self._retry),
            "clear": ("", "begin a new conversation", self._clear),
            "save": ("FILE", "write the conversation to a file", self._save),
            "history": ("", "list the latest conversations", self._history),
            "load": ("ID|FILE", "continue another conversation", self._load),
            "usage": ("", "tokens and cost so far", lambda _: self._say(session.describe_usage())),
            "exit": ("", "end the chat (also Ctrl-D)", lambda _: None),
        }

    def run(self) -> int:
        """The exit code: 1 where the last prompt of a pipe failed."""
        failed = False
        if self._interactive:
            self._say(f"{self._session.model}; /help lists the commands")
            _edit_lines(self._complete, self._session)
        for text in self._prompts():
            if text.split(maxsplit=1)[0] in ("/exit", "/quit"):
                break
            try:
                failed = not self._take(text)
            except (DragomanError, click.UsageError, OSError) as error:
                failed = True
                message = error.format_message() if isinstance(error, click.ClickException) else str(error)
                click.secho(" ".join(message.split()), fg="red", err=True)
            except (KeyboardInterrupt, click.Abort):
                if not self._interactive:
                    raise
                self._say("\nstopped; the conversation is as it was before")
        if self._interactive and self._session.path and self._session.path.exists():
            self._say(f"stored as {self._session.path.stem}; continue with: dragoman chat -c")
        return 1 if failed and not self._interactive else 0

    def _take(self, text: str) -> bool:
        if text.startswith("/"):
            name, _, rest = text[1:].partition(" ")
            found = [each for each in self._commands if each.startswith(name)] if name else []
            if name not in self._commands and len(found) != 1:
                raise click.UsageError(f"There is no command /{name}. /help lists them.")
            self._commands[name if name in self._commands else found[0]][2](rest.strip())
            return True
        return self._ask(text)

    def _ask(self, text: str) -> bool:
        run = self._session.ask(user_message(text, **self._attached))
        self._attached = {"images": [], "files": []}
        if run.stopped != "answer":
            self._say(f"stopped before the answer: {run.stopped}")
        return run.stopped == "answer"

    def _prompts(self) -> Iterator[str]:
        """Prompts and commands; several lines may be one."""
        lines: list[str] = []
        block = False
        while True:
            try:
                line = self._line(MORE if lines or block else PROMPT)
            except KeyboardInterrupt:
                self._say("")
                lines, block = [], False
                continue
            if line is None:
                if lines:
                    yield "\n".join(lines)
                return
            if line.strip() == '"""':
                block = not block
            elif line.endswith("\\") and not block:
                lines.append(line[:-1])
                continue
            else:
                lines.append(line)
            if not block and (text := "\n".join(lines).strip()):
                yield text
            if not block:
                lines = []

    def _line(self, prompt: str) -> str | None:
        if not self._interactive:
            line = sys.stdin.readline()
            return line.rstrip("\n") if line else None
        if not sys.stdout.isatty():
            click.echo(prompt, nl=False, err=True)
            prompt = ""
        try:
            return input(prompt)
        except EOFError:
            self._say("")
            return None

    def _say(self, text: str) -> None:
        """Everything that is not an answer goes to stderr."""
        click.secho(text, dim=True, err=True)

    def _complete(self, text: str) -> list[str]:
        """What a line that begins so may become."""
        name, space, rest = text.partition(" ")
        if not space:
            return [f"/{each}" for each in self._commands if f"/{each}".startswith(text)]
        if name == "/tools":
            return [f"/tools {each}" for each in ("all", "none", *self._available()) if each.startswith(rest)]
        if name == "/model":
            return [f"/model {each}:" for each in known() if each.startswith(rest)]
        if name == "/load":
            stems = [path.stem for path in self._session.history.recent()]
            return [f"/load {stem}" for stem in stems if stem.startswith(rest)]
        return []

    # Commands

    def _help(self, _: str) -> None:
        rows = [(f"/{name} {form}".rstrip(), about) for name, (form, about, _) in self._commands.items()]
        width = max(len(form) for form, _ in rows)
        self._say("\n".join(f"{form:<{width}}  {about}" for form, about in rows))

    def _model(self, name: str) -> None:
        if name:
            self._session.model = choose_model(name)
        model = self._session.model
        self._say(f"{model}  {summary(model.provider.profile(model.name))}".rstrip())

    def _models(self, provider: str) -> None:
        model = choose_model(f"{provider}:any") if provider else self._session.model
        for each in models(model.provider):
            self._say(f"{each.id}  {summary(each.profile)}".rstrip())

    def _choose(self, names: str) -> None:
        available = self._available() if names else {}
        wanted = {"none": [], "all": list(available)}.get(names, names.split())
        if unknown := [name for name in wanted if name not in available]:
            raise click.UsageError(describe_unknown("tool", unknown[0], available))
        if names:
            self._session.tools = [available[name] for name in wanted]
        self._say(", ".join(tool.name for tool in self._session.tools) or "no tools")

    def _available(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in (*standard_tools(self._session.root), *self._given)}

    def _system(self, text: str) -> None:
        conversation = self._session.conversation
        if text:
            set_system(conversation, text)
        shown = [each.content for each in conversation if isinstance(each, SystemMessage)]
        self._say("\n".join(shown) or "no system prompt")

    def _attach(self, kind: str, path: str) -> None:
        user_message("", **{kind: [path]})  # which refuses what cannot be read
        self._attached[kind].append(path)
        self._say(f"{path} goes with the next prompt")

    def _undo(self, _: str) -> None:
        prompt = self._session.conversation.undo()
        self._session.store()
        self._say(f"removed: {getattr(prompt, 'content', '')}")

    def _retry(self, _: str) -> None:
        conversation = self._session.conversation
        before = list(conversation.messages)
        prompt: Any = conversation.undo()
        try:
            self._session.ask(prompt)
        except BaseException:
            conversation.messages[:] = before
            raise

    def _clear(self, _: str) -> None:
        conversation = self._session.conversation
        conversation.messages[:] = [each for each in conversation if isinstance(each, SystemMessage)]
        if self._session.path:
            self._session.path = self._session.history.new()
        self._say("a new conversation")

    def _save(self, file: str) -> None:
        if not file:
            raise click.UsageError("/save needs the name of a file")
        self._session.conversation.save(Path(file).expanduser())
        self._say(f"saved to {file}")

    def _history(self, _: str) -> None:
        self._say("\n".join(list_conversations(self._session.history)) or "nothing yet")

    def _load(self, name: str) -> None:
        path = self._session.history.find(name)
        loaded = Conversation.load(path)
        self._session.conversation.messages[:] = loaded.messages
        if self._session.path:
            self._session.path = path
        self._say(f"{path.stem}: {len(loaded)} messages")


def _edit_lines(complete: Callable[[str], list[str]], session: TerminalSession) -> None:
    """Line editing, completion with Tab, and earlier lines with the arrow keys, where readline exists."""
    try:
        readline: Any = import_module("readline")
    except ImportError:  # Windows
        return

    def completer(_: str, state: int) -> str | None:
        found = complete(readline.get_line_buffer())
        return found[state] if state < len(found) else None

    readline.set_completer(completer)
    readline.set_completer_delims("")  # the whole line is completed
    libedit = "libedit" in (readline.__doc__ or "")  # macOS
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    if session.path is None or session.history.folder is None:
        return
    lines = session.history.folder.parent / "chat_lines"
    with suppress(OSError):
        readline.read_history_file(lines)

    def store() -> None:
        lines.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        readline.set_history_length(1000)
        with suppress(OSError):
            readline.write_history_file(lines)
            lines.chmod(0o600)

    atexit.register(store)
