"""Docstrings -> the description of a function, and those of its parameters.

Three styles are read: Google (`Args:` and indented entries), numpy (`Parameters`, underlined, and entries
`name : type` with indented text) and Sphinx (`:param name: text`). States: description -> google | numpy |
sphinx | other, by the title of a section or the first field; a title changes the state again, and nothing
leads back to the description. Sphinx fields are read in every state. Indented lines continue an entry.
"""

from __future__ import annotations

import re
from itertools import zip_longest

_PARAMETERS = re.compile(
    r"(?:(?:Other |Keyword )?(?:Args|Arguments|Parameters|Params)|Attributes)\s*:?\s*", re.IGNORECASE
)
_SECTION = re.compile(r"(?:Returns?|Raises|Yields?|Examples?|Notes?|Warnings?|See Also|References)\s*:?\s*")
_UNDERLINE = re.compile(r"-{3,}\s*")
_GOOGLE = re.compile(r"(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*)|)")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)(?:\s*:.*)?")
_SPHINX = re.compile(r"\s*:param(?:eter)?\s+(?:[\w\[\], |.]+\s)?(\w+)\s*:\s*(.*)")
_FIELD = re.compile(r"\s*:(?:returns?|rtype|raises?|type|yields?|keyword|meta)\b[^:]*:")


def docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the sections of a docstring, and the description of each parameter."""
    reader = _Reader()
    lines = text.splitlines()
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        reader.read(line, _UNDERLINE.fullmatch(following) is not None)
    described = {name: " ".join(words).strip() for name, words in reader.described.items()}
    return "\n".join(reader.description).strip(), described


class _Reader:
    def __init__(self) -> None:
        self.description: list[str] = []
        self.described: dict[str, list[str]] = {}
        self._section = "description"
        self._names: list[str] = []  # the parameters whose description may continue
        self._indent = ""  # of Google's entries

    def read(self, line: str, underlined: bool) -> None:
        if self._sphinx(line) or self._starts_section(line, underlined) or _UNDERLINE.fullmatch(line):
            return
        if self._section == "description":
            self.description.append(line)
        elif line.strip():
            self._entry(line)

    def _sphinx(self, line: str) -> bool:
        if found := _SPHINX.fullmatch(line):
            self._enter([found[1]], found[2])
        elif _FIELD.match(line):  # :returns:, :type x:, …
            self._names = []
        else:
            return False
        if self._section == "description":
            self._section = "sphinx"
        return True

    def _entry(self, line: str) -> None:
        """A line of a section: it begins the description of parameters, or continues it."""
        if self._section == "google" and self._google(line):
            return
        if self._section == "numpy" and not line[0].isspace() and (found := _NUMPY.fullmatch(line)):
            self._enter(re.split(r"\s*,\s*", found[1]), "")
        elif line[0].isspace():
            for name in self._names:
                self.described[name].append(line.strip())
        elif self._section == "google":  # text at the margin ends the section
            self._section, self._names = "other", []

    def _starts_section(self, line: str, underlined: bool) -> bool:
        titled = underlined or line.rstrip().endswith(":")
        if _PARAMETERS.fullmatch(line) and titled:
            self._section = "numpy" if underlined else "google"
        elif (underlined and line.strip()) or (_SECTION.fullmatch(line) and titled):
            self._section = "other"
        else:
            return False
        self._names, self._indent = [], ""
        return True

    def _google(self, line: str) -> bool:
        found = _GOOGLE.fullmatch(line)
        if not found or (self._indent and found[1] != self._indent):
            return False
        self._indent = found[1]
        self._enter([found[2]], found[3] or "")
        return True

    def _enter(self, names: list[str], text: str) -> None:
        self._names = names
        self.described.update({name: [text.strip()] for name in names})
