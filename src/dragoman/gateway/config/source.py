"""Settings from the file, overridden by the environment, and mistakes that name the place of a setting.

Reading goes on after a mistake, so that all of them are reported at once: `note` remembers one, `noting`
turns one that is raised inside it into a note, and `finish` raises what was noted.

`DRAGOMAN_SECTION__KEY` sets `key` of `[section]`: DRAGOMAN_SERVER__PORT=9000,
DRAGOMAN_PROVIDERS__LOCAL__BASE_URL=http://…, DRAGOMAN_MODELS='{"claude-*" = "groq:…"}'.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from dragoman.core.errors import ConfigError, describe_unknown
from dragoman.core.jsontext import is_object
from dragoman.gateway.config.tables import SECTIONS
from dragoman.profiles import known

T = TypeVar("T")
Path = tuple[str, ...]

_PREFIX = "DRAGOMAN_"
_VISIBLE = re.compile(r"[\x21-\x7e]*")
_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_UNREADABLE = (ValueError, RecursionError)  # tomllib also raises these: 5000 digits, deep brackets
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\s*({_KEYS})\s*\]")
_ENTRY = re.compile(rf"\s*({_KEYS})\s*=")


class ConfigMistake(ConfigError):
    """What is wrong with the setting at `where`; its text names the variable, or the file and the `line`."""

    def __init__(self, text: str, where: Path, line: int = 0) -> None:
        super().__init__(text)
        self.where, self.line = where, line


class ConfigMistakes(ConfigError):
    """Several `mistakes`, a line for each, in the order of the file."""

    def __init__(self, mistakes: Iterable[ConfigMistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: mistake.line))
        super().__init__("\n  ".join([f"{len(self.mistakes)} mistakes:", *map(str, self.mistakes)]))


class ConfigSource:
    """One file and the environment; `wrong` makes an error that names the line or the variable."""

    def __init__(self, text: str, path: str, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self._text, self._file = text, path
        self._variables: dict[Path, str] = {}
        self._mistakes: dict[Path, ConfigMistake] = {}
        self.secret_variables: list[str] = []  # those that `env:NAME` names
        self._table = _parse(text, path)
        _check_keys(self, (), self._table, SECTIONS)
        for name in sorted(environ):
            if environ[name] and _is_setting(name):
                with self.noting():
                    self._override(name, environ[name])

    def table(self, name: str) -> dict[str, Any]:
        value = self._table.get(name, {})
        if not is_object(value):
            self.note(self.wrong((name,), "expected a table"))
            return {}
        return value

    def note(self, mistake: ConfigMistake) -> None:
        """The first one of a setting counts: what follows from it says nothing new."""
        where = mistake.where
        if not any(where[: len(noted)] == noted or noted[: len(where)] == where for noted in self._mistakes):
            self._mistakes[where] = mistake

    @contextmanager
    def noting(self) -> Generator[None]:
        try:
            yield
        except ConfigMistake as mistake:
            self.note(mistake)

    def is_mistaken(self, where: Path) -> bool:
        """Whether something at `where`, or below it, was noted."""
        return any(noted[: len(where)] == where for noted in self._mistakes)

    def finish(self) -> None:
        """Raise what was noted."""
        mistakes = tuple(self._mistakes.values())
        if mistakes:
            raise mistakes[0] if len(mistakes) == 1 else ConfigMistakes(mistakes)

    def section(self, name: str, kind: type[T]) -> T:
        return self.convert((name,), self.table(name), kind)

    def convert(self, where: Path, value: Any, kind: type[T]) -> T:
        """`value` as the Struct `kind`, with the default of a field where its value is a mistake. Text is
        converted to numbers, because variables hold text."""
        if is_object(value):
            fields = getattr(kind, "__struct_fields__", value)
            _check_keys(self, where, value, fields)
            value = {key: each for key, each in value.items() if key in fields}
        while True:
            try:
                return msgspec.convert(value, kind, strict=False)
            except msgspec.ValidationError as error:
                problem, inner = _problem(str(error))
                mistake = self.wrong((*where, *inner), problem)
            if not inner or inner[0] not in value:
                raise mistake
            self.note(mistake)
            value = {key: each for key, each in value.items() if key != inner[0]}

    def secret(self, where: Path, value: str) -> str:
        """`env:NAME` reads a variable, so that secrets need not be in the file."""
        if value.startswith("env:"):
            self.secret_variables.append(value.removeprefix("env:"))
        return self.text(where, value)

    def text(self, where: Path, value: str) -> str:
        """`env:NAME` reads a variable that holds no secret."""
        if not value.startswith("env:"):
            return value
        name = value.removeprefix("env:")
        if not self.environ.get(name):
            self.note(self.wrong(where, f"the variable {name} is not set"))
        return self.environ.get(name, "")

    def key(self, where: Path, value: str) -> str:
        """A secret that travels in a header, which takes visible ASCII only."""
        key = self.secret(where, value)
        if not _VISIBLE.fullmatch(key):
            self.note(self.wrong(where, "A key is made of visible ASCII characters. This one has others."))
        return key

    def wrong(self, where: Path, problem: str) -> ConfigMistake:
        """An error that names the variable, or the file, the line and the key."""
        for length in range(len(where), 0, -1):
            if variable := self._variables.get(where[:length]):
                return ConfigMistake(f"{variable}: {problem}", where)
        line = _line_of(self._text, where)
        place = f"{self._file}:{line}" if line else self._file
        return ConfigMistake(f"{place}: {'.'.join(where).replace('.[', '[')}: {problem}", where, line)

    def blame(self, where: Path, variable: str) -> None:
        """What stands at `where` came from `variable`: errors name it."""
        self._variables[where] = variable

    def _override(self, variable: str, text: str) -> None:
        path = self._path(variable)
        self._variables[path] = variable
        if path[0] not in SECTIONS:
            raise self.wrong(path, describe_unknown("section", path[0], SECTIONS))
        table = self._table
        for word in path[:-1]:
            inner = table.setdefault(word, {})
            if not is_object(inner):
                raise self.wrong(path, f"{word} is not a table")
            table = inner
        value, old = self._value(path, text), table.get(path[-1])
        table[path[-1]] = {**old, **value} if is_object(old) and is_object(value) else value

    def _value(self, where: Path, text: str) -> Any:
        """Arrays and tables in TOML; everything else is the text itself."""
        if not text.startswith(("[", "{")):
            return text
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except _UNREADABLE as error:
            raise self.wrong(where, str(error)) from None

    def _path(self, variable: str) -> Path:
        """Underscores of a variable stand for dashes in the names of providers and keys."""
        words = variable.removeprefix(_PREFIX).lower().split("__")
        if words[0] in ("providers", "keys") and len(words) > 1:
            others = known() if words[0] == "providers" else ()
            named = {_plain(name): name for name in (*others, *self._table.get(words[0], ()))}
            words[1] = named.get(_plain(words[1]), words[1].replace("_", "-"))
        return tuple(words)


def _is_setting(name: str) -> bool:
    return name.startswith(_PREFIX) and ("__" in name or name == "DRAGOMAN_MODELS")


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except _UNREADABLE as error:
        problem, line = str(error), None
        if found := _PLACE.fullmatch(problem):
            problem, line = found[1], found[2] or str(max(1, len(text.splitlines())))
        raise ConfigError(f"{path}:{line or 1}: {problem[:1].lower()}{problem[1:]}") from None


def _check_keys(source: ConfigSource, where: Path, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    for key in table:
        if key not in allowed:
            source.note(source.wrong((*where, key), describe_unknown("key", key, allowed)))


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "an array",
    "object": "a table",
}


def _problem(message: str) -> tuple[str, Path]:
    """msgspec's message in the words of TOML, and its path: "Expected `int`, got `str` - at `$.x.idle`"."""
    message, _, place = message.partition(" - at ")
    text = re.sub(r"`([^`]*)`", lambda found: _in_words(found[1]), message)
    return text[:1].lower() + text[1:], tuple(re.findall(r"(?<=\.)\w+|\[\d+\]", place))


def _in_words(types: str) -> str:
    named = [_WORDS.get(name, name) for name in types.split(" | ") if name != "null"]
    return " or ".join(named)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _line_of(text: str, where: Path) -> int:
    """The line of a key, or of the innermost table around it; 0 where the file has neither.

    The parser of the standard library does not report lines.
    """
    lines = dict[Path, int]()
    for path, number in _key_lines(text):
        for length in range(1, len(path) + 1):
            lines.setdefault(path[:length], number)
    return next((lines[where[:length]] for length in range(len(where), 0, -1) if where[:length] in lines), 0)


def _key_lines(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEADER.match(line):
            table = _key_path(found[1])
            yield table, number
        elif found := _ENTRY.match(line):
            yield (*table, *_key_path(found[1])), number


def _key_path(keys: str) -> Path:
    """`a."b.c"` is ("a", "b.c"); the TOML parser reads quotes and escapes."""
    value: Any = tomllib.loads(f"{keys} = 0")
    path: list[str] = []
    while isinstance(value, dict):
        ((key, value),) = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - TOML
        path.append(str(key))  # pyright: ignore[reportUnknownArgumentType] - TOML
    return tuple(path)
