"""Parameters of every type: the scripted model fills the schema, the function gets the declared type."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from annotated_types import Ge, Len

from dragoman import ConfigError, Exchange, Provider, Tool, run, tool
from dragoman.client.executing import ToolRunEnd
from dragoman.client.tools import tools_of
from dragoman.demo import DemoTransport

PROTOCOLS = ("openai-chat", "openai-responses", "anthropic", "gemini")


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Street(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2)
    number: int = pydantic.Field(ge=1, le=500)


class Address(pydantic.BaseModel):
    """Where somebody lives."""

    street: Street
    unit: Unit = Unit.CELSIUS


class Person(pydantic.BaseModel):
    address: Address
    others: list[Address] = []


class Node(pydantic.BaseModel):
    value: int
    children: list[Node] = []


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    address: Address


@pydantic.dataclasses.dataclass
class Checked:
    address: Address
    count: int = pydantic.Field(default=1, ge=1)


@dataclass
class Place:
    city: str
    tags: list[str] = field(default_factory=list)


@dataclass
class Trip:
    place: Place
    address: Address
    guest: Cat | Dog | None = None


class Options(TypedDict):
    place: Place
    deep: NotRequired[bool]


class WithModel(TypedDict):
    address: Address


class Point(msgspec.Struct):
    """A point in the plane."""

    x: Annotated[int, msgspec.Meta(ge=3, description="to the right")]
    y: int = 0


class Line(msgspec.Struct):
    start: Point
    end: Point


class Chain(msgspec.Struct):
    value: int
    rest: Chain | None = None


class Pair(NamedTuple):
    name: str
    number: int


UserId = NewType("UserId", int)
# name -> the type, and what the function must get
TYPES: dict[str, tuple[Any, Any]] = {
    "str": (str, str),
    "int": (int, int),
    "float": (float, (int, float)),
    "bool": (bool, bool),
    "list": (list[int], list),
    "set": (set[str], set),
    "tuple": (tuple[int, str], tuple),
    "dict": (dict[str, int], dict),
    "Mapping and Sequence": (Mapping[str, Sequence[int]], Mapping),
    "Literal": (Literal["a", "b"], str),
    "enum": (Unit, Unit),
    "enum of numbers": (Level, Level),
    "or None": (Optional[Place], (Place, type(None))),  # noqa: UP045 - the older spelling is a row
    "union": (int | list[str], (int, list)),
    "NewType": (UserId, int),
    "NamedTuple": (Pair, Pair),
    "date": (datetime.date, datetime.date),
    "datetime": (datetime.datetime, datetime.datetime),
    "timedelta": (datetime.timedelta, datetime.timedelta),
    "UUID": (uuid.UUID, uuid.UUID),
    "Decimal by pydantic": (Annotated[decimal.Decimal, pydantic.Field(ge=1)], decimal.Decimal),
    "Path": (pathlib.Path, pathlib.Path),
    "dataclass": (Place, Place),
    "dataclass with models": (Trip, Trip),
    "list of dataclasses": (list[Place], list),
    "TypedDict": (Options, dict),
    "TypedDict with a model": (WithModel, dict),
    "struct": (Point, Point),
    "struct of structs": (Line, Line),
    "struct in itself": (Chain, Chain),
    "Meta": (Annotated[int, msgspec.Meta(ge=7)], int),
    "Field": (Annotated[int, pydantic.Field(ge=7, description="how many")], int),
    "annotated_types": (Annotated[list[int], Len(2, 3)], list),
    "PositiveInt": (pydantic.PositiveInt, int),
    "model": (Address, Address),
    "model of models": (Person, Person),
    "model in itself": (Node, Node),
    "list of models": (list[Address], list),
    "dict of models": (dict[str, Address], dict),
    "model or None": (Address | None, (Address, type(None))),
    "union of models": (Cat | Dog, (Cat, Dog)),
    "discriminated union": (Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], (Cat, Dog)),
    "pydantic dataclass": (Checked, Checked),
}


def taking(hint: Any, received: list[Any]) -> Any:
    def take(value: Any) -> str:
        """Take a value."""
        received.append(value)
        return "taken"

    take.__annotations__["value"] = hint
    return tool(take)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("hint", "expected"), TYPES.values(), ids=TYPES)
def test_a_parameter_of_every_type_over_every_protocol(hint: Any, expected: Any, protocol: str):
    received: list[Any] = []
    model = Provider("d", protocol=protocol, base_url="http://demo", transport=DemoTransport()).model("demo")
    ends: list[ToolRunEnd] = []
    take = taking(hint, received)
    done = run(
        "Take a value",
        model,
        [take],
        on_event=lambda event: ends.append(event) if isinstance(event, ToolRunEnd) else None,
    )
    assert len(ends) == 1
    assert done.content == "take returned: taken"
    assert isinstance(received[0], expected)


@pytest.mark.parametrize(("hint", "expected"), TYPES.values(), ids=TYPES)
def test_the_schema_is_valid_and_closed(hint: Any, expected: Any):
    """Every reference points to a definition at the root, which is the only place of definitions."""
    parameters = taking(hint, []).parameters
    jsonschema_rs.validator_for(parameters)
    definitions = parameters.pop("$defs", {})
    text = msgspec.json.encode([parameters, *definitions.values()]).decode()
    assert "$defs" not in text.replace("#/$defs/", "")
    for name in (each.split('"')[0] for each in text.split('"#/$defs/')[1:]):
        assert name in definitions


@pytest.mark.parametrize("upstream", PROTOCOLS)
def test_nested_models_survive_translation(upstream: str):
    take = taking(Person, [])
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "take", "parameters": take.parameters}}],
    }
    text = msgspec.json.encode(Exchange("openai-chat", upstream).request(body)).decode()
    assert '"minimum":1' in text
    assert '"maximum":500' in text


def test_models_of_one_name_keep_their_own_definitions():
    def models(kind: type) -> type[pydantic.BaseModel]:
        inner = pydantic.create_model("Inner", value=(kind, ...))
        return pydantic.create_model(f"Outer{kind.__name__}", inner=(inner, ...))

    def take(first: Any, second: Any, third: Any): ...

    texts, numbers = models(str), models(int)
    take.__annotations__.update(first=texts, second=numbers, third=list[numbers])
    parameters = tool(take).parameters
    assert set(parameters["$defs"]) == {"Inner", "Inner_2"}
    valid = jsonschema_rs.validator_for(parameters).is_valid
    text, number = {"inner": {"value": "a"}}, {"inner": {"value": 1}}
    assert valid({"first": text, "second": number, "third": [number]})
    assert not valid({"first": text, "second": text, "third": []})
    assert not valid({"first": text, "second": number, "third": [text]})


CONSTRAINTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Field": (
        Annotated[int, pydantic.Field(ge=1, lt=9, multiple_of=2, description="n")],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2, "description": "n"},
    ),
    "Field of a text": (
        Annotated[str, pydantic.Field(min_length=1, max_length=3, pattern="^a")],
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a"},
    ),
    "Field of a struct": (
        Annotated[list[Point], pydantic.Field(max_length=3)],
        {"type": "array", "maxItems": 3},
    ),
    "Meta": (
        Annotated[float, msgspec.Meta(gt=0, le=1, title="T", description="a part", examples=[0.5])],
        {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1,
            "title": "T",
            "description": "a part",
            "examples": [0.5],
        },
    ),
    "Meta of an array": (
        Annotated[list[int], msgspec.Meta(min_length=2, extra_json_schema={"x-order": 1})],
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "x-order": 1},
    ),
    "annotated_types": (
        Annotated[int, Ge(3), "a number"],
        {"type": "integer", "minimum": 3, "description": "a number"},
    ),
}


@pytest.mark.parametrize(("hint", "expected"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_constraints(hint: Any, expected: dict[str, Any]):
    assert expected.items() <= taking(hint, []).parameters["properties"]["value"].items()


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "missing": (int, {}, "value: required, but missing"),
    "unknown": (int, {"value": 1, "valeu": 2}, "valeu: there is no such argument; the arguments are: value"),
    "a wrong type": (int, {"value": "many"}, "value: Expected `int`, got `str`"),
    "inside a dataclass": (
        Options,
        {"value": {"place": {"city": 3}}},
        "value.place.city: Expected `str`, got `int`",
    ),
    "inside a list": (list[Place], {"value": [{}]}, "value[0]: Object missing required field `city`"),
    "a struct's limit": (Point, {"value": {"x": 1}}, "value.x: Expected `int` >= 3"),
    "a model's limit": (
        Address,
        {"value": {"street": {"name": "x", "number": 0}}},
        "value.street.name: String should have at least 2 characters\n"
        "value.street.number: Input should be greater than or equal to 1",
    ),
    "a Field's limit": (
        Annotated[int, pydantic.Field(ge=7)],
        {"value": 1},
        "value: Input should be greater than or equal to 7",
    ),
    "an enum": (Unit, {"value": "x"}, "value: Invalid enum value 'x'"),
}


@pytest.mark.parametrize(("hint", "arguments", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_give_a_readable_error(hint: Any, arguments: dict[str, Any], problem: str):
    received: list[Any] = []
    outcome = taking(hint, received).call(arguments)
    assert (outcome.text, outcome.failed) == (f"The arguments of take are wrong.\n{problem}", True)
    assert not received


def test_a_field_as_default():
    @tool
    def forecast(
        city: str = pydantic.Field(description="a city"),
        days: int = pydantic.Field(2, ge=1, le=7),
        tags: list[str] = pydantic.Field(default_factory=list),  # noqa: B008 - as users write it
    ) -> str:
        return f"{city} {days} {tags}"

    assert forecast.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "a city"},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 2},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    }
    assert forecast.call({"city": "Rome"}).text == "Rome 2 []"
    assert forecast.call({}).text == "The arguments of forecast are wrong.\ncity: required, but missing"
    assert forecast.call({"city": "Rome", "days": 8}).failed


class Station:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def measure(self, unit: Unit) -> str:
        """Measure."""
        return f"{self.name} {unit.name}"

    @tool
    async def later(self) -> str:
        return self.name

    @tool
    @classmethod
    def kind(cls, number: int) -> str:
        return f"{cls.__name__} {number}"

    @classmethod
    @tool
    def other_kind(cls) -> str:
        return cls.__name__

    @tool
    @staticmethod
    def double(number: int) -> int:
        return 2 * number

    def plain(self, number: int) -> str:
        return f"{self.name} {number}"


class Buoy(Station): ...


def test_methods():
    one, two = Station("one"), Buoy("two")
    assert list(one.measure.parameters["properties"]) == ["unit"]
    assert one.measure.parameters["required"] == ["unit"]
    assert one.measure.call({"unit": "k"}).text == "one KELVIN"
    assert two.measure.call({"unit": "c"}).text == "two CELSIUS"
    assert two.measure(Unit.KELVIN) == "two KELVIN"
    assert two.later.call({}).text == "two"
    assert two.kind.call({"number": 3}).text == Buoy.kind.call({"number": 3}).text == "Buoy 3"
    assert list(two.kind.parameters["properties"]) == ["number"]
    (other_kind,) = tools_of([two.other_kind])
    assert isinstance(other_kind, Tool)
    assert other_kind.call({}).text == "Buoy"
    assert Station.double.call({"number": 2}).text == "4"
    assert tool(one.plain).call({"number": 2}).text == "one 2"
    assert one.measure.call({}).text == "The arguments of measure are wrong.\nunit: required, but missing"


def test_a_method_without_an_instance_is_refused():
    with pytest.raises(ConfigError, match=r"measure is a method\. Take it from an instance"):
        run("hello", "demo:any", [Station.measure])
