"""`@tool`: the schema of a function, the values that its function gets, and what its results become."""

from __future__ import annotations

import base64
import datetime
import enum
import inspect
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2s
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pydantic
import pytest

from dragoman import ConfigError, ModelRetry, Tool, run, tool
from dragoman.client import Model
from dragoman.client.docstrings import docstring
from dragoman.client.schemas import schema
from dragoman.client.tools import tools_of
from dragoman.client.values import outcome
from dragoman.core.model import Base64, Media


class Unit(enum.Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Place:
    """A place on earth.

    Args:
        city: its name
    """

    city: str
    country: str = "US"
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


class Options(TypedDict, total=False):
    deep: bool


class Book(pydantic.BaseModel):
    title: str
    pages: int = 1


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "its name"},
        "country": {"type": "string", "default": "US"},
        "tags": {"type": "array", "items": STRING},
    },
    "required": ["city"],
    "description": "A place on earth.",
}
SCHEMAS: dict[str, tuple[Any, dict[str, Any]]] = {
    "str": (str, STRING),
    "int": (int, INTEGER),
    "float": (float, {"type": "number"}),
    "bool": (bool, {"type": "boolean"}),
    "anything": (Any, {}),
    "list": (list, {"type": "array", "items": {}}),
    "list of": (list[int], {"type": "array", "items": INTEGER}),
    "set of": (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
    "pair": (
        tuple[int, str],
        {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
    ),
    "tuple of": (tuple[int, ...], {"type": "array", "items": INTEGER}),
    "dict": (dict, {"type": "object"}),
    "dict of": (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    "Literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    "Literal of two types": (Literal["a", 1], {"type": ["string", "integer"], "enum": ["a", 1]}),
    "Optional": (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045 - the older spelling is a row
    "or None": (str | None, {"type": ["string", "null"]}),
    "Union": (Union[int, str], {"type": ["integer", "string"]}),  # noqa: UP007 - the older spelling is a row
    "Union with a list": (int | list[int], {"anyOf": [INTEGER, {"type": "array", "items": INTEGER}]}),
    "enum": (Unit, {"type": "string", "enum": ["c", "f"]}),
    "enum of numbers": (Level, {"type": "integer", "enum": [1, 2]}),
    "dataclass": (Place, PLACE),
    "dataclass in itself": (
        Tree,
        {
            "type": "object",
            "properties": {"value": INTEGER, "children": {"type": "array", "items": {"type": "object"}}},
            "required": ["value"],
        },
    ),
    "TypedDict": (Options, {"type": "object", "properties": {"deep": {"type": "boolean"}}}),
    "described": (Annotated[str, "a city"], {"type": "string", "description": "a city"}),
    "described by pydantic": (
        Annotated[int, pydantic.Field(description="how many")],
        {"type": "integer", "description": "how many"},
    ),
    "date": (datetime.date, {"type": "string", "format": "date"}),
    "pydantic": (Book, Book.model_json_schema()),
}


@pytest.mark.parametrize(("hint", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_schemas(hint: Any, expected: dict[str, Any]):
    assert schema(hint) == expected


def test_tools_that_cannot_be_told_apart_or_are_no_list():
    def look_up(name: str) -> str:
        return name

    with pytest.raises(ConfigError, match="tools is a list"):
        tools_of(tool(look_up))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Two tools are called 'look_up'"):
        tools_of([look_up, look_up])


def test_a_type_without_a_schema_is_refused():
    with pytest.raises(ConfigError, match="no JSON Schema"):
        schema(pytest.MonkeyPatch)


def test_a_function_becomes_a_tool():
    @tool
    def forecast(city: str, days: int = 3, unit: Unit = Unit.CELSIUS, note: str | None = None) -> str:
        """Forecast the weather.

        In more words.

        Args:
            city: City name,
                with its state
            days (int): how many days
        Returns:
            nothing
        """
        return f"{city} {days} {unit.name} {note}"

    assert (forecast.name, forecast.description) == ("forecast", "Forecast the weather.\n\nIn more words.")
    assert forecast.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name, with its state"},
            "days": {"type": "integer", "description": "how many days", "default": 3},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "note": {"type": ["string", "null"]},
        },
        "required": ["city"],
    }
    assert forecast("Rome") == "Rome 3 CELSIUS None"
    assert forecast.call({"city": "Rome", "unit": "f"}).text == "Rome 3 FAHRENHEIT None"


def test_sphinx_docstrings_and_other_names():
    @tool(name="add", description="Adds.", timeout=3)
    def plus(a: int, b: int) -> int:
        """Add.

        :param a: the first
        :param int b: the second
        """
        return a + b

    described = [row["description"] for row in plus.parameters["properties"].values()]
    assert (plus.name, plus.description, plus.timeout, described) == (
        "add",
        "Adds.",
        3,
        ["the first", "the second"],
    )


@tool
def visit(place: Place) -> str:
    return type(place).__name__ + place.country


@tool
def read(book: Book) -> int:
    return book.pages


@tool
def level(level: Level) -> str:
    return level.name


@tool
async def later(seconds: float) -> float:
    return seconds


@tool
def broken() -> None:
    raise ValueError("no luck")


@tool
def retried() -> None:
    raise ModelRetry("try again with a city")


@tool
def confused() -> int:
    return hash([])


@tool
def untyped(x):
    return x


@tool
def place() -> Place:
    return Place("Oslo", "NO")


@tool
def book() -> Book:
    return Book(title="Emma")


@tool
def nothing() -> None: ...


@tool
def unprintable() -> object:
    return {"at": Unprintable()}


class Unprintable:
    def __repr__(self) -> str:
        return "something"


CALLS: dict[str, tuple[Tool, dict[str, Any], str, bool]] = {
    "a dataclass": (visit, {"place": {"city": "Rome"}}, "PlaceUS", False),
    "a pydantic model": (read, {"book": {"title": "Emma", "pages": 3}}, "3", False),
    "an enum": (level, {"level": 2}, "HIGH", False),
    "async": (later, {"seconds": 1.5}, "1.5", False),
    "a number as text": (later, {"seconds": "1.5"}, "1.5", False),
    "no types": (untyped, {"x": {"a": [1, None, "é"]}}, '{"a":[1,null,"é"]}', False),
    "text as it is": (untyped, {"x": "as\nit is"}, "as\nit is", False),
    "a dataclass comes out": (place, {}, '{"city":"Oslo","country":"NO","tags":[]}', False),
    "a pydantic model comes out": (book, {}, '{"title":"Emma","pages":1}', False),
    "nothing comes out": (nothing, {}, "", False),
    "what JSON cannot say": (unprintable, {}, "{'at': something}", False),
    "an exception": (broken, {}, "ValueError: no luck", True),
    "a wrong type": (
        level,
        {"level": 7},
        "The arguments of level are wrong.\nlevel: Invalid enum value 7",
        True,
    ),
    "a missing field": (
        visit,
        {"place": {}},
        "The arguments of visit are wrong.\nplace: Object missing required field `city`",
        True,
    ),
    "an unknown argument": (
        nothing,
        {"x": 1},
        "The arguments of nothing are wrong.\nx: there is no such argument; the arguments are: none",
        True,
    ),
    "a retry": (retried, {}, "try again with a city", True),
    "a TypeError of the function itself": (confused, {}, "TypeError: unhashable type: 'list'", True),
    "a callable without a signature": (Tool("dict", function=dict), {"x": 1}, '{"x":1}', False),
    "no function": (Tool("bare"), {}, "the tool bare has no function here", True),
}


@pytest.mark.parametrize(("called", "arguments", "text", "failed"), CALLS.values(), ids=CALLS)
def test_calls(called: Tool, arguments: dict[str, Any], text: str, failed: bool):
    outcome = called.call(arguments)
    assert (outcome.text, outcome.failed) == (text, failed)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
IMAGE = Media("image", "image/png", Base64(base64.b64encode(PNG).decode()))


class Picture:
    def _repr_png_(self) -> bytes:
        return PNG


OUTPUTS: dict[str, tuple[Any, str, tuple[Media, ...]]] = {
    "bytes of an image": (PNG, "", (IMAGE,)),
    "bytearray": (bytearray(PNG), "", (IMAGE,)),
    "an image of Pillow": (Picture(), "", (IMAGE,)),
    "bytes of text": ("é\n".encode(), "é\n", ()),
    "other bytes": (b"\xff\x00", "", (Media("document", "application/octet-stream", Base64("/wA=")),)),
    "text and images": (["before", PNG, Picture(), {"a": 1}], 'before\n{"a":1}', (IMAGE, IMAGE)),
    "dataclasses": ([Place("Oslo", "NO")], '[{"city":"Oslo","country":"NO","tags":[]}]', ()),
}


@pytest.mark.parametrize(("output", "text", "media"), OUTPUTS.values(), ids=OUTPUTS)
def test_results(output: Any, text: str, media: tuple[Media, ...]):
    made = outcome(output)
    assert (made.text, made.media, made.failed) == (text, media, False)


DOCSTRINGS = {
    "Google": """Search.

        More about it: all of it.

        Args:
            query (str, optional): what to find,
                in words: any
            **limit: how many

        Returns:
            query: the results
        """,
    "numpy": """Search.

        More about it: all of it.

        Parameters
        ----------
        query : str, optional
            what to find,
            in words: any
        limit
            how many

        Returns
        -------
        query : list
            the results
        """,
    "Sphinx": """Search.

        More about it: all of it.

        :param str query: what to find,
            in words: any
        :type query: str
        :param limit: how many
        :returns: the results,
            all of them
        """,
}


@pytest.mark.parametrize("text", DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_docstrings(text: str):
    assert docstring(inspect.cleandoc(text)) == (
        "Search.\n\nMore about it: all of it.",
        {"query": "what to find, in words: any", "limit": "how many"},
    )


def test_two_parameters_of_one_entry():
    text = "Add.\n\nParameters\n----------\na, b : int\n    A number."
    assert docstring(text) == ("Add.", {"a": "A number.", "b": "A number."})


def test_an_image_from_a_tool_reaches_the_model(model: Model):
    @tool
    def take_photo() -> list[Any]:
        """Take a photo."""
        return ["Done.", PNG]

    digest = blake2s(base64.b64encode(PNG), digest_size=8).hexdigest()
    done = run("Please take a photo", model, [take_photo])
    assert "take_photo returned: Done." in done.content
    assert f"[image image/png {digest}]" in done.content


def weather(city: str, unit: str = "C") -> str:
    """Get the weather.

    Args:
        city: The city
    """
    return f"{city} {unit}"


class WeatherStation:
    async def __call__(self, city: str) -> str:
        """Get the weather."""
        return f"{city} K"


NAMED = tool(name="weather", description="Get the weather.")
CALLABLES: dict[str, tuple[Any, str, str]] = {
    "a partial": (partial(weather, unit="F"), "weather", "Rome F"),
    "an instance": (WeatherStation(), "WeatherStation", "Rome K"),
    "a cached function": (lru_cache(weather), "weather", "Rome C"),
    "a named lambda": (NAMED(lambda city: city), "weather", "Rome"),
}


@pytest.mark.parametrize(("function", "name", "text"), CALLABLES.values(), ids=CALLABLES)
def test_callables(function: Any, name: str, text: str):
    made = function if isinstance(function, Tool) else tool(function)
    assert (made.name, made.description) == (name, "Get the weather.")
    assert made.call({"city": "Rome"}).text == text


def test_what_a_partial_has_set_is_not_for_the_model():
    made = tool(partial(weather, unit="F"))
    assert made.parameters["properties"] == {"city": {"type": "string", "description": "The city"}}
    assert "no such argument" in made.call({"city": "Rome", "unit": "K"}).text


def test_a_lambda_has_no_name():
    with pytest.raises(ConfigError, match="cannot be the name of a tool"):
        tool(lambda city: city)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="bogus"):
        Tool("a", bogus=1)  # pyright: ignore[reportCallIssue] - the point of the test
    with pytest.raises(TypeError, match="bogus"):
        tool(name="a", bogus=1)(print)  # pyright: ignore[reportCallIssue] - as above


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ({"type": "web_search"}, "web_search"),
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search"),
        ({"googleSearch": {}}, "web_search"),
        ({"urlContext": {}}, "web_fetch"),
        ({"type": "local_shell"}, "local_shell"),
    ],
    ids=lambda each: str(each),
)
def test_a_tool_that_the_provider_runs_is_taken_as_its_protocol_writes_it(written: dict[str, Any], kind: str):
    assert [getattr(each, "kind", "") for each in tools_of([written])] == [kind]


def test_a_dict_that_is_no_tool_is_refused():
    with pytest.raises(ConfigError, match="A tool needs a name"):
        tools_of([{"type": "nonsense"}])
