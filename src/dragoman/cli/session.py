"""A conversation in the terminal, for `ask` and `chat`: options, tools with approval, output, history."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from msgspec import Struct

from dragoman.cli.completion import complete_model, complete_tool
from dragoman.cli.options import collect
from dragoman.cli.screen import Screen, visible
from dragoman.cli.settings import settings_of
from dragoman.client import Conversation, Model, Run, SystemMessage, Tool, UserMessage, web_fetch, web_search
from dragoman.client.server_tools import ServerTool
from dragoman.client.values import call_name
from dragoman.core.errors import ConfigError, DragomanError, describe_unknown
from dragoman.toolkit import READING, standard_tools
from dragoman.user_folders import data_folder

if TYPE_CHECKING:
    from dragoman.mcp_client.oauth import OAuth
    from dragoman.toolkit.mcp import McpServer

_TITLE = 60  # characters of a conversation in a list
_OPTIONS = (
    click.option(
        "--model",
        "-m",
        metavar="PROVIDER:MODEL",
        shell_complete=complete_model,
        help="The model that answers.  [the default model]",
    ),
    click.option(
        "--tool",
        "names",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_tool,
        help="A standard tool that the model may use, or all; repeatable.",
    ),
    click.option(
        "--mcp", "servers", multiple=True, metavar="[NAME=]URL|COMMAND", help="An MCP server; repeatable."
    ),
    click.option("--search", is_flag=True, help="Let the model search the web and read pages."),
    click.option(
        "--root", default=".", metavar="DIR", help="The directory that the tools are restricted to.  [.]"
    ),
    click.option("--system", "-s", metavar="TEXT", help="System prompt."),
    click.option("--continue", "-c", "resume", is_flag=True, help="Continue the latest conversation."),
    click.option(
        "--conversation",
        metavar="ID|FILE",
        help="Continue this one; `dragoman chat --list` shows ids.",
    ),
    click.option("--no-history", is_flag=True, help="Do not store the conversation."),
    click.option("--yes", is_flag=True, help="Run everything without asking."),
    click.option(
        "--max-turns",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Maximum number of replies to a prompt.",
    ),
    click.option("--reasoning", is_flag=True, help="Show reasoning on stderr."),
    click.option("--plain", is_flag=True, help="Print Markdown as it is."),
)


class SessionOptions(Struct, frozen=True):
    model: str | None
    names: tuple[str, ...]
    servers: tuple[str, ...]
    search: bool
    root: str
    system: str | None
    resume: bool
    conversation: str | None
    no_history: bool
    yes: bool
    max_turns: int
    reasoning: bool
    plain: bool


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that `ask` and `chat` share; the command gets them as `SessionOptions`."""
    command = collect(SessionOptions)(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class TerminalSession:
    """`path`: where the conversation is stored after each answer; None: nowhere."""

    def __init__(
        self, conversation: Conversation, model: Model, tools: list[Tool], screen: Screen, max_turns: int
    ) -> None:
        self.conversation, self.screen, self.model, self.tools = conversation, screen, model, tools
        self.history = ChatHistory(os.environ)
        self.path: Path | None = None
        self.root = "."
        self.hosted: list[ServerTool] = []  # that the provider runs, or that run here where it has none
        self.approve: Callable[..., Any] | None = None  # None: everything runs
        self._max_turns = max_turns
        self.cost: float | None = 0.0

    def ask(self, prompt: UserMessage, output: Any = None) -> Run[Any]:
        """The answer, shown as it arrives, and stored. Where it fails the conversation stays as it was."""
        self.conversation.model = self.model
        try:
            run = self.conversation.ask(
                prompt,
                output=output,
                tools=[*self.tools, *self.hosted],
                approve=self.approve,
                on_event=self.screen,
                max_turns=self._max_turns,
            )
        finally:
            self.screen.end_line()
        self.cost = None if self.cost is None or run.cost is None else self.cost + run.cost
        self.store()
        return run

    def store(self) -> None:
        if self.path:
            self.history.save(self.conversation, self.path)

    def describe_usage(self) -> str:
        """`1200 tokens in, 300 out, $0.0081`."""
        usage = self.conversation.usage
        cost = "" if not self.cost else f", ${self.cost:.4f}"
        return f"{usage.input} tokens in, {usage.output} out{cost}"


@contextmanager
def open_session(
    options: SessionOptions, shows_text: bool = True, approver: Approver | None = None
) -> Generator[TerminalSession]:
    from dragoman.cli.default_model import choose_model

    history = ChatHistory(os.environ)
    path = history.find(options.conversation or "") if options.resume or options.conversation else None
    continued = Conversation.load(path) if path else Conversation()
    target = choose_model(options.model or (str(continued.model) if continued.model else None))
    if options.system:
        set_system(continued, options.system)
    screen = Screen(options.reasoning, markdown=not options.plain, shows_text=shows_text)
    with ExitStack() as stack:
        tools = _tools_for(options, stack)
        session = TerminalSession(continued, target, tools, screen, options.max_turns)
        session.root = options.root
        if not options.yes:
            session.approve = approver or Approver()
        if options.search:
            session.hosted = search_tools()
        if not options.no_history:
            session.path = path or history.new()
        yield session


def _tools_for(options: SessionOptions, stack: ExitStack) -> list[Tool]:
    """The standard tools, and those of MCP servers, which run until `stack` is left."""
    names = () if "all" in options.names else options.names
    tools = choose_tools(options.root, names) if options.names else []
    for server in [mcp_server(each) for each in options.servers]:
        tools.extend(stack.enter_context(server))
    return tools


class Approver:
    """Asks for confirmation in the terminal. Tools that only read run without a question.

    `remembers`: the answer `a` allows a tool for the rest of the session.
    """

    def __init__(self, remembers: bool = False) -> None:
        self._remembers = remembers
        self._allowed: set[str] = set()

    def __call__(self, call: dict[str, Any]) -> bool | str:
        name = call_name(call)
        if name in READING or name in self._allowed:
            return True
        if not sys.stdin.isatty():
            return "there is no terminal to confirm it, and --yes was not given"
        if not self._remembers:
            return click.confirm(f"Run {visible(name)}?", default=False, err=True) or "the user refused"
        answer = click.prompt(
            f"Run {visible(name)}? (y)es, (n)o, (a)lways",
            default="n",
            show_default=False,
            type=click.Choice(["y", "n", "a"], case_sensitive=False),
            show_choices=False,
            err=True,
        )
        if answer == "a":
            self._allowed.add(name)
        return answer in ("y", "a") or "the user refused"


def choose_tools(root: str, names: Sequence[str], read_only: bool = False) -> list[Tool]:
    """The tools with these names, or all of them."""
    known = {tool.name: tool for tool in standard_tools(root)}
    for name in names:
        if name not in known:
            raise click.UsageError(describe_unknown("tool", name, known))
    wanted = names or known
    return [tool for name, tool in known.items() if name in wanted and (not read_only or name in READING)]


def search_tools() -> list[ServerTool]:
    """With the search backend of the configuration, else one that the environment names."""
    settings = settings_of(None).hosted
    found = settings.web_search if settings else None
    if found is None:
        return [web_search(), web_fetch()]
    return [web_search(found.backend, url=found.url, api_key=found.api_key, count=found.count), web_fetch()]


def set_system(conversation: Conversation, text: str) -> None:
    """Replace the system prompt, wherever it stands."""
    rest = [each for each in conversation if not isinstance(each, SystemMessage)]
    conversation.messages[:] = [SystemMessage(text), *rest]


def user_message(text: str, images: Sequence[str] = (), files: Sequence[str] = ()) -> UserMessage:
    """A prompt with attachments: paths, or http URLs."""
    return UserMessage(text, images=[_attachment(each) for each in images], files=[*map(_attachment, files)])


def _attachment(text: str) -> str | Path:
    if _is_url(text):
        return text
    if not Path(text).expanduser().is_file():
        raise click.UsageError(f"There is no file {text}.")
    return Path(text).expanduser()


def mcp_server(text: str) -> McpServer:
    """`docs=https://…`, `files=npx server`; without a name, the host or the program names it."""
    from dragoman.toolkit.mcp import McpServer

    name, mark, target = text.partition("=")
    if not mark or not name.replace("-", "").replace("_", "").isalnum():
        name, target = "", text
    try:
        place: str | Sequence[str] = target if _is_url(target) else shlex.split(target)
    except ValueError as error:
        raise click.UsageError(f"--mcp {text}: {error}") from None
    if not place:
        raise click.UsageError(f"--mcp {text}: a URL or a command is missing")
    oauth = _access() if isinstance(place, str) and sys.stdin.isatty() else None
    return McpServer(name or _name_of(place), place, oauth=oauth)


def _access() -> OAuth:
    """A server that wants it is allowed in the browser, and remembered."""
    from dragoman.mcp_client.oauth import OAuth, in_browser

    async def visit(url: str) -> str:
        click.echo(f"Allow the access in your browser: {url}", err=True)
        return await in_browser(url)

    folder = data_folder(os.environ)
    return OAuth(visit, file=folder / "mcp-access.json" if folder else None)


def _is_url(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def _name_of(place: str | Sequence[str]) -> str:
    return (urlsplit(place).hostname or "mcp") if isinstance(place, str) else PurePath(place[0]).stem


class ChatHistory:
    """`folder` is None where there is no home directory: then nothing is stored."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        base = data_folder(environ)
        self.folder = base / "chats" if base else None

    def new(self) -> Path | None:
        """Where the next conversation is stored; names sort by time."""
        if self.folder is None:
            return None
        return self.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.json"

    def recent(self, count: int = 20) -> list[Path]:
        """The latest first."""
        files = sorted(self.folder.glob("*.json"), reverse=True) if self.folder else []
        return files[:count]

    def find(self, name: str) -> Path:
        """The conversation with that id or beginning of one, or the file; empty: the latest."""
        if name and Path(name).is_file():
            return Path(name)
        found = [path for path in self.recent(10_000) if path.stem.startswith(name)]
        if not found:
            what = f"no conversation {name!r}" if name else "no conversation yet"
            raise ConfigError(f"there is {what} in {self.folder}")
        return found[0]

    def save(self, conversation: Conversation, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        conversation.save(path)
        os.chmod(path, 0o600)


def title_of(conversation: Conversation) -> str:
    """The beginning of the first prompt."""
    first = next((each.content for each in conversation if isinstance(each, UserMessage)), "")
    line = " ".join(first.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def list_conversations(history: ChatHistory, count: int = 20) -> list[str]:
    """`id  title` of the latest conversations; a file that is not readable is left out."""
    lines: list[str] = []
    for path in history.recent(count):
        try:
            lines.append(f"{path.stem}  {title_of(Conversation.load(path))}")
        except (DragomanError, OSError) as error:
            click.echo(f"{path}: {error}", err=True)
    return lines
