"""A conversation between calls: it grows, and can be forked, edited, saved and continued on another model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, overload

from dragoman.client.budget import add_usage
from dragoman.client.display import markdown_of
from dragoman.client.loop import Run, RunOptions, arun, run
from dragoman.client.messages import AnyMessage, Prompt, SystemMessage, UserMessage, messages_of
from dragoman.client.output import Output, OutputSpec
from dragoman.client.providers import Model
from dragoman.client.tools import ToolLike
from dragoman.client.transcripts import FORMAT, decode_messages, dump_messages
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.core.fields import read_body
from dragoman.core.model import Usage
from dragoman.profiles import known, split_model


class Conversation(Sequence[AnyMessage]):
    """Messages that grow by `ask`. It can stand wherever a list of messages can: `generate(conversation, …)`.

    `messages` is a plain list and may be changed. `usage` counts the tokens of all replies.
    """

    def __init__(
        self,
        messages: Prompt = (),
        *,
        model: str | Model | None = None,
        tools: Iterable[ToolLike] = (),
        **options: Unpack[RunOptions],
    ) -> None:
        self.messages: list[AnyMessage] = messages_of(messages)
        if system := options.pop("system", None):
            self.messages.insert(0, SystemMessage(system))
        self.model: str | Model | None = model
        self.tools: list[ToolLike] = list(tools)
        self.options: RunOptions = options
        self.usage = Usage()
        self._address = ""  # of the model, where the conversation was loaded from a file

    def ask(
        self,
        prompt: Prompt,
        model: str | Model | None = None,
        *,
        output: OutputSpec[Output] = None,
        tools: Iterable[ToolLike] | None = None,
        **options: Unpack[RunOptions],
    ) -> Run[Output]:
        """Add `prompt`, let the model answer (with tools, as `run` does), and keep what it answered.

        Another `model` or other `tools` are for this question only; set `conversation.model` to change it.
        Where the call fails, the conversation stays as it was.
        """
        messages, merged = [*self.messages, *messages_of(prompt)], RunOptions({**self.options, **options})
        offered = self.tools if tools is None else tools
        return self._add(run(messages, self._model(model), offered, output=output, **merged))

    async def aask(
        self,
        prompt: Prompt,
        model: str | Model | None = None,
        *,
        output: OutputSpec[Output] = None,
        tools: Iterable[ToolLike] | None = None,
        **options: Unpack[RunOptions],
    ) -> Run[Output]:
        """Like `ask`, for async code."""
        messages, merged = [*self.messages, *messages_of(prompt)], RunOptions({**self.options, **options})
        offered = self.tools if tools is None else tools
        return self._add(await arun(messages, self._model(model), offered, output=output, **merged))

    def fork(self, before: int | None = None) -> Conversation:
        """A copy with the messages before that index, or with all of them. Both go on independently."""
        return Conversation(self.messages[:before], model=self.model, tools=self.tools, **self.options)

    def edit(self, index: int, message: str | AnyMessage) -> None:
        """Replace one message and drop what came after it, which answered something else.

        A string keeps the kind of the message. `fork` first to keep both.
        """
        old = self.messages[index]
        if isinstance(message, str):
            if not isinstance(old, SystemMessage | UserMessage):
                raise ConfigError(f"only text of the user or the system is edited as text, not {old!r}")
            message = type(old)(message)
        self.messages[index:] = [message]

    def undo(self) -> Prompt:
        """Drop the last prompt and all that came after it; returns the prompt, which can be sent again."""
        for index in range(len(self.messages) - 1, -1, -1):
            if isinstance(message := self.messages[index], UserMessage):
                del self.messages[index:]
                return message
        raise ConfigError("There is no prompt to undo.")

    @property
    def content(self) -> str:
        """The text of the last message."""
        return self.messages[-1].content if self.messages else ""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the messages, and which model answered last, as JSON. The file is replaced at once."""
        body = read_body(dump_messages(self.messages), FORMAT)
        if self.model is not None:
            body["model"] = str(self.model)
        if address := self.model.provider.base_url if isinstance(self.model, Model) else self._address:
            body["base_url"] = address
        target = Path(path)
        written = target.with_name(target.name + ".new")
        written.write_bytes(jsontext.encode(body))
        written.replace(target)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        model: str | Model | None = None,
        tools: Iterable[ToolLike] = (),
        **options: Unpack[RunOptions],
    ) -> Conversation:
        """A conversation that was saved; without `model` it goes on with the model that it had.

        Tools, options and keys are not saved. Where the model was at an address that its name does not give
        here, `ask` raises ConfigError instead of going on somewhere else: then name the model again.
        """
        body = read_body(Path(path).read_bytes(), FORMAT)
        loaded = cls(decode_messages(body), model=model or body.get("model"), tools=tools, **options)
        loaded._address = "" if model else body.get("base_url", "")
        return loaded

    @overload
    def __getitem__(self, index: int) -> AnyMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnyMessage]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self.messages[index]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[AnyMessage]:
        return iter(self.messages)

    def _repr_markdown_(self) -> str:  # Jupyter
        return markdown_of(self)

    def __repr__(self) -> str:
        return f"Conversation({len(self)} messages, model={str(self.model) if self.model else None!r})"

    def _model(self, model: str | Model | None) -> str | Model:
        target = model or self.model
        if target is None:
            raise ConfigError("There is no model. Give one to Conversation(model=…), or to ask(…, model=…).")
        if target is self.model and isinstance(target, str) and self._address:
            _check_address(target, self._address)
        return target

    def _add(self, done: Run[Output]) -> Run[Output]:
        self.messages[:] = done.messages
        self.usage: Usage = add_usage(self.usage, done.usage)
        return done


def _check_address(model: str, base_url: str) -> None:
    """A name that is known gives the address; one that is not has none."""
    provider = known().get(split_model(model)[0])
    if provider is None or base_url != (provider.url_in(os.environ) or provider.base_url):
        raise ConfigError(
            f"This conversation was with {model} at {base_url}, which that name does not give here. "
            "Name the model again: Conversation.load(path, model=Provider(…).model(…))."
        )
