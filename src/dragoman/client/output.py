"""Typed output: a value of a type instead of text.

A model that has structured output is given the schema; another one a tool that takes the answer, or an
instruction. Whichever it was, the answer is text of the reply in the end, and is validated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

import jsonschema_rs
from msgspec.structs import replace

from dragoman.client.schemas import schema
from dragoman.client.validation import converter, problems_of
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError, DragomanError
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyPart,
    OutputFormat,
    Request,
    Response,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolDeclaration,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.core.schema_rules import SchemaRules
from dragoman.schemas.argument_checker import BROKEN, read
from dragoman.schemas.downgrade import can_be_strict, fit
from dragoman.transforms.arguments import checker_of, repair

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default is in `typing` since Python 3.13

    from dragoman.client.requests import RequestSettings
    from dragoman.client.results import Result

    Output = TypeVar("Output", default=Any)
else:
    from typing import TypeVar

    Output = TypeVar("Output")

# What a caller may give as `output`; None and "text": plain text
OutputSpec = type[Output] | OutputFormat | Wire | Literal["json", "text"] | None
OutputMode = Literal["auto", "native", "tool", "instruction"]
_WRAPPED = "value"  # providers take objects at the root, so that other types stand in this property
_TOOL = "final_answer"
_TOOL_DESCRIPTION = "Gives the final answer. Call it once, when you are done, instead of writing an answer."
_INSTRUCTION = "Answer with JSON alone, without any other text. It must conform to this JSON Schema:\n"
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


class OutputError(DragomanError):
    """The model gave no valid output. `problems` says what is wrong with it, `result` is its last reply."""

    def __init__(self, problems: Sequence[str], result: Result[Any] | None = None) -> None:
        self.problems: list[str] = list(problems)
        self.result: Result[Any] | None = result
        super().__init__(problems, result)

    def __str__(self) -> str:
        return f"no valid output: {'; '.join(self.problems)}"


class InvalidOutput(Exception):
    """What is wrong with an answer, one problem for each argument."""


class ExpectedOutput(Generic[Output]):
    """How an output is requested from a model, and how its reply is read."""

    def __init__(self, output: Any, mode: OutputMode = "auto") -> None:
        self.mode: OutputMode = mode
        self.tool: str = ""  # the name of the tool that takes the answer, once there is one
        self.format = output if isinstance(output, OutputFormat) else None  # taken as it is
        if self.format is None and output == "json":
            self.format = OutputFormat("json")
        self._wrapped = False
        if self.format:
            self.schema: Wire = self.format.schema or {}
            self._convert = _checker_of(self.schema)
        elif is_object(output):
            self.schema, self.name = output, str(output.get("title") or "reply")
            self._convert = _checker_of(output)
        else:
            self.schema = schema(output)
            self.name: str = getattr(output, "__name__", "reply")
            self._convert = converter(output)
            self._wrap()

    def _wrap(self) -> None:
        if self.schema.get("type") == "object" or "$ref" in self.schema:
            return
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        definitions = {"$defs": self.schema["$defs"]} if "$defs" in self.schema else {}
        self.schema = {
            "type": "object",
            "properties": {_WRAPPED: inner},
            "required": [_WRAPPED],
            **definitions,
        }
        self._wrapped = True

    # The request

    def prepare(self, request: Request, rules: SchemaRules, profile: ModelProfile, losses: Losses) -> Request:
        """`request` with the schema, in the way that the model takes it best. `tool` is then that of it."""
        self.tool = ""
        if self.format:
            return replace(request, settings=replace(request.settings, output=self.format))
        mode, why = self._mode(request, rules, profile)
        match mode:
            case "native":
                return self._native(request, rules, losses)
            case "tool":
                losses.emulated("output", f"A tool takes the answer, because {why}.", "setting.output")
                return self._as_tool(request, profile)
            case _:
                losses.emulated("output", f"The prompt asks for JSON, because {why}.", "setting.output")
                text = Text(_INSTRUCTION + jsontext.dumps(self.schema))
                return replace(request, system=(*request.system, text))

    def _mode(self, request: Request, rules: SchemaRules, profile: ModelProfile) -> tuple[OutputMode, str]:
        """How the output is requested, and why not natively."""
        if self.mode != "auto":
            return self.mode, f"output_mode is {self.mode}"
        if profile.structured_output is False:
            why = "the model has no structured output"
        elif not profile.combined_tools and any(isinstance(tool, ToolDeclaration) for tool in request.tools):
            why = "the model takes no output schema beside functions"
        elif rules.strict is not None and not can_be_strict(self.schema):
            why = "structured output takes no open objects"
        else:
            return "native", ""
        return "instruction" if profile.tools is False else "tool", why

    def _native(self, request: Request, rules: SchemaRules, losses: Losses) -> Request:
        strict = rules.strict is not None and can_be_strict(self.schema)
        fitted = fit(self.schema, rules, "output", losses, strict=strict)
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", self.name)[:64]
        output = OutputFormat("schema", fitted, name, strict=strict or None)
        return replace(request, settings=replace(request.settings, output=output))

    def _as_tool(self, request: Request, profile: ModelProfile) -> Request:
        taken = {tool.name for tool in request.tools}
        names = (_TOOL, *(f"{_TOOL}_{number}" for number in range(2, len(taken) + 3)))
        self.tool = next(name for name in names if name not in taken)
        choice, system = request.tool_choice, request.system
        if choice is None and profile.forced_tools:
            choice = ToolChoice("required", () if request.tools else (self.tool,))
        elif choice is None:
            system = (*system, Text(f"Call {self.tool} to give your answer."))
        tool = ToolDeclaration(self.tool, _TOOL_DESCRIPTION, self.schema)
        return replace(request, tools=(*request.tools, tool), tool_choice=choice, system=system)

    # The reply

    def restore(self, response: Response) -> Response:
        """`response` with the answer as text, where a tool took it."""
        if not self.tool:
            return response
        parts = tuple(
            [
                Text(part.arguments)
                if isinstance(part, ToolCall) and part.name == self.tool and part.complete
                else part
                for part in response.parts
            ]
        )
        called = any(isinstance(part, ToolCall) for part in parts)
        stop = response.stop
        if stop.reason == "tool_calls" and not called:
            stop = Stop("end", stop.raw)
        return replace(response, parts=parts, stop=stop)

    def read(self, parts: Sequence[AnyPart]) -> Output:
        """The validated output; raises InvalidOutput."""
        texts = [part.text for part in parts if isinstance(part, Text)]
        for text in (*reversed(texts), "".join(texts), *_inside("".join(texts))):
            value = read(repair(text.strip(), checker_of(self.schema))[0])
            if value is not BROKEN:
                return self._convert_value(value)
        raise InvalidOutput("the answer is not JSON" if any(texts) else "there is no answer")

    def partial(self, value: Any) -> Any:
        """What a value that is not complete yet shows of the output."""
        return value.get(_WRAPPED) if self._wrapped and is_object(value) else value

    def _convert_value(self, value: Any) -> Output:
        if self._wrapped:
            if not is_object(value) or _WRAPPED not in value:
                raise InvalidOutput(f"{_WRAPPED}: required, but missing")
            value = value[_WRAPPED]
        try:
            return self._convert(value)
        except ValueError as error:  # msgspec's and pydantic's ValidationError are ValueErrors
            raise InvalidOutput(*problems_of("", error)) from None


def expect_output(output: Any, settings: RequestSettings) -> ExpectedOutput[Any] | None:
    """What `output`, or `response_format` among the settings, wants; None: text."""
    alias = settings.pop("response_format", None)
    output = _openai_format(alias) if output is None else output
    match output:
        case None | "text":
            return None
        case OutputFormat() if output.kind == "text":
            return None
        case str() if output != "json":
            raise ConfigError(f"output is a type, a JSON Schema, 'json' or 'text', not {output!r}")
        case _:
            return ExpectedOutput(output, settings.get("output_mode") or "auto")


def _openai_format(value: Any) -> Any:
    """`response_format` may be written as for OpenAI's SDK."""
    match value:
        case {"type": "text" | "json_object" as kind}:
            return "json" if kind == "json_object" else "text"
        case {"type": "json_schema", "json_schema": {"schema": json_schema, **rest}}:
            return OutputFormat("schema", json_schema, rest.get("name") or "reply", strict=rest.get("strict"))
        case _:
            return value


def correction(problems: Sequence[str], expected: ExpectedOutput[Any]) -> str:
    """The message to the model after an answer that is not valid."""
    again = f"Call {expected.tool} again" if expected.tool else "Give the whole answer again, as JSON alone"
    return "\n".join(["The answer is not valid.", *problems, f"{again}."])


def _inside(text: str) -> list[str]:
    """JSON in a code block, or between the outermost brackets, as models write it beside other text."""
    found = _FENCED.findall(text)
    spans = [(text.find(first), text.rfind(last) + 1) for first, last in ("{}", "[]")]
    return [*reversed(found), *(text[start:end] for start, end in spans if 0 <= start < end)]


def _checker_of(json_schema: Wire) -> Callable[[Any], Any]:
    try:
        validator = jsonschema_rs.validator_for(json_schema)
    except ValueError as error:
        raise ConfigError(f"output is not a JSON Schema: {error}") from None

    def check(value: Any) -> Any:
        problems = [
            f"{'.'.join(map(str, error.instance_path)) or 'answer'}: {error.message}"
            for error in validator.iter_errors(value)
        ]
        if problems:
            raise InvalidOutput(*problems[:20])
        return value

    return check
