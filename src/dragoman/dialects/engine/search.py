"""Where a call may begin, and whether one really does."""

from __future__ import annotations

import re
from functools import lru_cache

from dragoman.dialects.engine.grammar import Opening, Think, literal
from dragoman.dialects.engine.source import Broken, Source


class Search:
    """Openings as two searches: for whole ones, and for the beginning of one at the end of a text."""

    def __init__(self, *openings: Opening) -> None:
        self.full = re.compile("|".join(opening.full for opening in openings) or "(?!)")
        self.partial = re.compile(f"(?:{'|'.join(o.partial for o in openings) or '(?!)'})\\Z")
        self._longest = max((opening.longest for opening in openings), default=0)

    def held(self, source: Source) -> int:
        """Where the beginning of an opening starts at the end of the window."""
        end = len(source.window)
        found = self.partial.search(source.window, max(source.at, end - self._longest))
        return found.start() if found else end


class Searches:
    """All that is searched for in a text with these openings, and reasoning that is written so."""

    def __init__(self, openings: tuple[Opening, ...], think: Think | None) -> None:
        closings = [literal(think.closes)] if think else []
        if think and think.anywhere:
            openings = (*openings, literal(think.opens))
        self.openings, self.endings = Search(*openings), Search(*closings)
        self.closings = Search(*openings, *closings)
        self.special = re.compile(f"[\n`~{''.join(re.escape(opening.first) for opening in openings)}]")


@lru_cache(maxsize=256)
def searches(openings: tuple[Opening, ...], think: Think | None) -> Searches:
    """A dialect's are the same in every reply, but where they name the tools."""
    return Searches(openings, think)


class Probe:
    """Asks a reader whether a call stands here, and stops it there."""

    class Certain(Exception):
        pass

    def call(self, name: str, arguments: str, id: str = "") -> None:
        raise Probe.Certain

    def said(self, text: str) -> None:
        raise Broken("no call")

    def thought(self, text: str) -> None:
        raise Broken("no call")

    def changed(self, why: str) -> None:
        pass
