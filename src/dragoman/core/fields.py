"""Wire objects: fields read by taking, two-way tables of names, and bodies read no further than needed.

What nobody took is left over, and the leftovers are the extras: nobody maintains a list of unsupported
fields. A field that a codec does not take goes back to its own protocol unchanged, and on the way to another
one it is a reported loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import UNSET, Raw, Struct, structs

from dragoman.core import jsontext
from dragoman.core.errors import WireError
from dragoman.core.jsontext import is_array, is_object
from dragoman.core.losses import Losses
from dragoman.core.model import AnyPart, Extras, Settings, Value, Wire

T = TypeVar("T", str, bool, int)
NOTHING: frozenset[str] = frozenset()


ABSENT: Any = UNSET  # default of a Struct's field that is not written where it has no value


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def unread_fields(shape: type[Struct]) -> frozenset[str]:
    """The fields that a Struct of the wire has as raw JSON: bookkeeping that means nothing elsewhere."""
    return frozenset(field.name for field in structs.fields(shape) if field.type is Raw)


class Fields:
    """One wire object at `where`. A field that is null counts as absent and is left where it is."""

    __slots__ = ("protocol", "rest", "where")

    def __init__(self, value: Any, where: str, protocol: str) -> None:
        self.protocol: str = protocol
        self.where: str = where
        if type(value) is not dict:
            raise WireError(protocol, where, f"expected an object, got {describe(value)}")
        self.rest: Wire = value.copy()  # pyright: ignore[reportUnknownMemberType] - of a JSON object

    def take(self, key: str, kind: type[T]) -> T | None:
        """Take a scalar of exactly this kind, or None where there is none."""
        value = self.rest.get(key)
        if value is None:
            return None
        if type(value) is not kind:
            raise self.wrong(key, kind.__name__, value)
        del self.rest[key]
        return value

    def need(self, key: str, kind: type[T]) -> T:
        value = self.take(key, kind)
        if value is None:
            raise WireError(self.protocol, self.path(key), f"expected {_NAMES[kind.__name__]}, got nothing")
        return value

    def text(self, key: str) -> str:
        """A string, empty where there is none."""
        return self.take(key, str) or ""

    def nonempty(self, key: str) -> str:
        """Like `text`; an empty string counts as absent and is left where it is."""
        value = self.rest.get(key)
        if value is None or value == "":
            return ""
        if type(value) is not str:
            raise self.wrong(key, "str", value)
        del self.rest[key]
        return value

    def flag(self, key: str) -> bool:
        """Whether it is true; false counts as absent and is left where it is."""
        return self.rest.get(key) is not False and (self.take(key, bool) or False)

    def number(self, key: str) -> float | None:
        value = self.rest.get(key)
        if value is None:
            return None
        if type(value) is bool or not isinstance(value, _NUMBERS):
            raise self.wrong(key, "float", value)
        del self.rest[key]
        return value

    def integer(self, key: str) -> int | None:
        """A whole number; 10.0 is one."""
        if type(value := self.rest.get(key)) is int:
            del self.rest[key]
            return value
        value = self.number(key)
        if value is None:
            return None
        if value != value or value in (_INFINITE, -_INFINITE) or int(value) != value:
            raise self.wrong(key, "int", value)
        return int(value)

    def list(self, key: str) -> list[Any] | None:
        value = self.rest.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(key, "list", value)
        del self.rest[key]
        return value  # pyright: ignore[reportUnknownVariableType] - of JSON

    def object(self, key: str) -> Wire | None:
        value = self.rest.get(key)
        if value is None:
            return None
        if type(value) is not dict:
            raise self.wrong(key, "dict", value)
        del self.rest[key]
        return value  # pyright: ignore[reportUnknownVariableType] - of JSON

    def fields(self, key: str) -> Fields | None:
        """An inner object, to be taken apart in its turn."""
        value = self.rest.get(key)
        if value is None:
            return None
        del self.rest[key]
        return Fields(value, self.path(key), self.protocol)

    def need_fields(self, key: str) -> Fields:
        inner = self.fields(key)
        if inner is None:
            raise WireError(self.protocol, self.path(key), "expected an object, got nothing")
        return inner

    def any(self, key: str) -> Any:
        """A value of any shape, for the caller to judge."""
        value = self.rest.get(key)
        if value is not None:
            del self.rest[key]
        return value

    def read(self, table: Mapping[str, tuple[str, Reading]]) -> dict[str, Any]:
        """Those fields of `table` that the wire has, each read in its way, under its neutral name."""
        values: dict[str, Any] = {}
        for key in [*self.rest]:  # to read is to take
            if entry := table.get(key):
                values[entry[0]] = entry[1](self, key)
        return values

    def path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def wrong(self, key: str, expected: str, value: Any) -> WireError:
        return WireError(
            self.protocol, self.path(key), f"expected {_NAMES.get(expected, expected)}, got {describe(value)}"
        )

    def extras(self, losses: Losses, quiet: frozenset[str] = NOTHING, topic: str = "field.unknown") -> Extras:
        """What is left, under the protocol's name. `quiet`: bookkeeping that means nothing elsewhere."""
        rest = self.rest
        if not rest.keys() <= quiet:
            for key, value in rest.items():
                if value is not None and key not in quiet:
                    losses.dropped(self.path(key), f"Only {self.protocol} has this field.", topic)
        return {self.protocol: rest}


class UnknownFields:
    """Reports what only `protocol` says in the many small objects of a stream: once for each name."""

    __slots__ = ("losses", "protocol", "reported")

    def __init__(self, protocol: str, losses: Losses) -> None:
        self.protocol, self.losses = protocol, losses
        self.reported: set[str] = set()

    def __call__(self, wire: Wire, known: frozenset[str], where: str) -> None:
        """`where` ends before the name: `event.`, or nothing."""
        if wire.keys() <= known:
            return
        for key in wire.keys() - known - self.reported:
            self.reported.add(key)
            self.losses.dropped(f"{where}{key}", f"Only {self.protocol} has this field.", "field.unknown")


def report_counts(usage: Any, where: str, known: frozenset[str], protocol: str, losses: Losses) -> None:
    """Counts that no other protocol has. `known`: those that are read, or mean nothing elsewhere."""
    for key, value in usage.items() if is_object(usage) else ():
        if value and key not in known and not (is_object(value) and not any(value.values())):
            losses.dropped(f"{where}.{key}", f"Only {protocol} counts it.", "usage.detail")


def field_of(body: Any, key: str, protocol: str) -> Any:
    """A field of a body, which must be an object."""
    if type(body) is not dict:
        raise WireError(protocol, "", f"expected an object, got {describe(body)}")
    return body.get(key)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of a JSON object


Reading = Callable[[Fields, str], Any]


def count(value: Any) -> int:
    """How many objects an array holds; none where it is something else."""
    return [*map(type, value)].count(dict) if is_array(value) else 0


def rows(value: Any) -> list[Wire]:
    """The objects of an array; nothing where it is something else."""
    return [item for item in value if type(item) is dict] if is_array(value) else []


def string(fields: Fields, key: str) -> str | None:
    return fields.take(key, str)


def boolean(fields: Fields, key: str) -> bool | None:
    return fields.take(key, bool)


_NUMBERS = (int, float)
_INFINITE = float("inf")
_NAMES = {
    "str": "a string",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "list": "an array",
    "dict": "an object",
}


def describe(value: Any) -> str:
    """What came, in the words of JSON and short enough for an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {str(value)[:40]}"
        case str():
            return f"the string {value[:40]!r}"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


_LAST_SECOND = 253_402_300_799  # of the year 9999


def whole_seconds(time: Any) -> int:
    """A time in seconds, which some servers give with a fraction or in milliseconds; 0 for anything else."""
    if type(time) is not int:
        is_number = isinstance(time, _NUMBERS) and type(time) is not bool
        time = int(time) if is_number and time == time and abs(time) != _INFINITE else 0
    while time > _LAST_SECOND:
        time //= 1000
    return max(time, 0)


def own(extras: Extras | None, protocol: str) -> Wire:
    """The extras that came from `protocol`."""
    return extras.get(protocol, {}) if extras else {}


def groups_of(parts: Iterable[AnyPart], topic: str) -> list[list[AnyPart]]:
    """`parts` in groups that were one item of the wire, as their extras under `topic` say; a part of another
    protocol is a group of its own."""
    groups: list[list[AnyPart]] = []
    last: Any = None
    for part in parts:
        at = own(part.extras, topic).get("at")
        if at is not None and at == last:
            groups[-1].append(part)
        else:
            groups.append([part])
        last = at
    return groups


def made_by(protocol: str) -> Callable[[Value], bool]:
    """Tells whether a value came from that protocol's wire, to which it goes back as it came."""

    def is_native(value: Value) -> bool:
        return value.extras is not None and protocol in value.extras

    return is_native


def printer(protocol: str) -> Callable[[Any, str], str]:
    """Prints a value at a place as JSON text; a caller's dict may hold what JSON cannot say."""

    def printed(value: Any, where: str) -> str:
        try:
            return jsontext.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise WireError(protocol, where, f"expected JSON, got {error}") from None

    return printed


def read_body(body: Wire | bytes | str, protocol: str) -> Wire:
    """A body as the object it must be, however the caller holds it."""
    value: Any = body
    if isinstance(body, bytes | str):
        try:
            value = jsontext.decode(body)
        except ValueError as error:
            raise WireError(protocol, "", str(error)) from None
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType] - of JSON
    inner = value[0] if is_array(value) and len(value) == 1 else value
    if not is_object(inner):  # Gemini wraps the error of a stream in an array
        raise WireError(protocol, "", f"expected an object, got {describe(inner)}")
    return inner


Neutral = TypeVar("Neutral", bound=str)


class Table(Generic[Neutral]):
    """Rows of (wire, neutral). The first row that names a value decides its direction.

    `other` is the pair for what no row names: (wire for an unknown neutral, neutral for an unknown wire).
    """

    __slots__ = ("_to_neutral", "_to_wire", "other")

    def __init__(self, *rows: tuple[str, Neutral], other: tuple[str, Neutral]) -> None:
        self.other = other
        self._to_neutral: dict[str, Neutral] = {}
        self._to_wire: dict[str, str] = {}
        for wire, neutral in rows:
            self._to_neutral.setdefault(wire, neutral)
            self._to_wire.setdefault(neutral, wire)

    def decode(self, wire: str) -> Neutral:
        return self._to_neutral.get(wire, self.other[1])

    def encode(self, neutral: str) -> str:
        return self._to_wire.get(neutral, self.other[0])

    def knows(self, neutral: str) -> bool:
        """Whether the wire has a word of its own for `neutral`."""
        return neutral in self._to_wire


class GivenSettings:
    """Those of these settings that a client sent, each with its value, in this order."""

    __slots__ = ("_names", "_nothing", "_values")

    def __init__(self, *names: str) -> None:
        self._names, self._values = names, attrgetter(*names)
        self._nothing = (None,) * len(names)

    def __call__(self, settings: Settings) -> list[tuple[str, Any]]:
        values = self._values(settings)
        if values == self._nothing:
            return []
        return [(name, value) for name, value in zip(self._names, values, strict=True) if value is not None]


class PartlyReadBody(Struct, eq=False):
    """A body that was read in part: `fields` are those that somebody may look at."""

    is_glanced: ClassVar[bool] = False  # see Body
    fields: Wire

    def holds(self, text: bytes) -> bool:
        """Whether the body has these bytes; what is known of it was searched before."""
        raise NotImplementedError


class Body:
    """`glance` holds at least the fields that forwarding looks at; `wire`, read when it is first needed, all.

    `seen` is what a Glance found; `outline` is what was read where the rest is known from earlier requests.
    `sealed`: whether it holds sealed state of another upstream, which we passed to this client; None: nobody
    has looked.
    Raises WireError, now and not later, where `data` is not a JSON object.
    """

    __slots__ = ("_protocol", "_wire", "data", "glance", "outline", "sealed")

    def __init__(
        self,
        data: bytes,
        protocol: str,
        seen: Wire | None = None,
        wire: Wire | None = None,
        outline: PartlyReadBody | None = None,
    ) -> None:
        self.data: bytes = data
        self._protocol = protocol
        self._wire = wire
        self.outline = outline
        self.sealed: bool | None = None
        if seen is None or wire is not None:
            seen = outline.fields if outline else None
        self.glance: Wire = self.wire if seen is None else seen

    def holds(self, text: bytes) -> bool:
        """Whether these bytes stand in it."""
        if self.outline:
            return self.outline.holds(text)
        return self.data.rfind(text) >= 0  # for names of fields in half the time of `find`

    @property
    def is_glanced(self) -> bool:
        """Whether `glance` comes from a Glance, which says that its fields stand only once in the text."""
        return self.outline.is_glanced if self.outline else self.glance is not self._wire

    @property
    def parsed(self) -> Wire | None:
        """`wire`, where it was read."""
        return self._wire

    @property
    def wire(self) -> Wire:
        if self._wire is None:
            self._wire = read_body(self.data, self._protocol)
        return self._wire
