"""A dialect: tool calls written as text. Two halves, neutral on both sides, so it works over any protocol.

`render` puts declarations, calls and results into the words of the prompt; `parser` is a stage that
finds the calls in the text of the reply. A dialect fills in the short methods below; the engine
(`scanner.py`, `rendering.py`) does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.core.events import EventStage
from dragoman.core.losses import Losses
from dragoman.core.model import AnyTool, Request, Tool
from dragoman.dialects.engine import rendering
from dragoman.dialects.engine.declared import Declared, declare
from dragoman.dialects.engine.grammar import Grammar, Think
from dragoman.dialects.engine.parser import Parser
from dragoman.dialects.engine.rendering import Made, RenderedResult
from dragoman.dialects.engine.scanner import Scanner


class Dialect(Struct, frozen=True, kw_only=True):
    """`think`: how reasoning is written. `opened`: the template opens it, so a reply starts inside it.

    `only_first`: further calls in one reply are dropped and reported. `gap` stands between a text and
    the calls after it. `marks_failures`: it has words of its own for a result that failed.
    """

    name: str
    think: Think | None = Think()
    opened: bool = False
    only_first: bool = False
    gap: str = "\n\n"
    marks_failures: bool = False

    def grammars(self, declared: Declared) -> tuple[Grammar, ...]:
        """How calls are written; of several that may begin alike the first that reads well counts."""
        raise NotImplementedError

    def declare(self, tools: tuple[Tool, ...]) -> str:
        """The system text that declares the tools and says how to call them."""
        raise NotImplementedError

    def write_calls(self, calls: tuple[Made, ...]) -> str:
        raise NotImplementedError

    def write_results(self, results: tuple[RenderedResult, ...]) -> str:
        raise NotImplementedError

    def write_reasoning(self, text: str) -> str:
        """Past reasoning with the gap after it; empty where it is not kept."""
        if not self.think:
            return ""
        return f"{self.think.opens}{self.think.label}\n{text}\n{self.think.closes}\n\n"

    def render(self, request: Request, losses: Losses) -> Request:
        return rendering.render(self, request, losses)

    def parser(self, tools: Iterable[AnyTool], losses: Losses) -> EventStage:
        declared = declare(tools, losses)
        grammars = self.grammars(declared)

        def scanner(first: bool) -> Scanner:
            return Scanner(grammars, declared, self.think, opened=self.opened and first)

        return Parser(scanner, losses, self.name, only_first=self.only_first)
