"""One call of a model: conversation, tools and settings -> the request as it is sent; and its reply.

The client library works with the neutral model itself, so no client codec stands before the pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Literal, TypedDict, cast

from msgspec import Struct

from dragoman.client.budget import cost_of
from dragoman.client.messages import Prompt, messages_of, neutral
from dragoman.client.output import ExpectedOutput, OutputMode
from dragoman.client.providers import Model, Provider
from dragoman.client.results import Result
from dragoman.client.setting_types import OTHER_NAMES, check_settings
from dragoman.client.tools import Tool, ToolLike, declare_tool, tools_of
from dragoman.core import jsontext
from dragoman.core.codec import OutgoingRequest, ProtocolLimits
from dragoman.core.errors import ConfigError, DragomanError, UpstreamError, WireError, describe_unknown
from dragoman.core.fields import read_body
from dragoman.core.jsontext import TOO_DEEP, is_object
from dragoman.core.losses import Losses, Strictness
from dragoman.core.model import (
    Effort,
    Failure,
    OutputFormat,
    Request,
    Response,
    Settings,
    Text,
    ToolChoice,
    Wire,
)
from dragoman.http.client import Reply, Timeouts, TransportError
from dragoman.http.client.retries import send_with_retries
from dragoman.pipeline import Pipeline, TranslationPlan
from dragoman.protocols import protocol
from dragoman.surfaces import LeastLoss, ask_until_found, present

_LARGEST_REPLY = 256 * 1024 * 1024
# The limits of a client that takes whatever the neutral model can say
NEUTRAL = ProtocolLimits(
    tool_name=r"[\s\S]+",
    tool_name_length=1 << 20,
    call_id=r"[\s\S]+",
    call_id_length=1 << 20,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    hosted_tools=frozenset({"local_shell"}),
    call_state=True,
    text_state=True,
)


_NOT_IN_REQUEST = (
    *("strict", "extra", "provider_options", "timeout", "tries"),
    *("output_mode", "output_retries"),
)


class RequestSettings(TypedDict, total=False):
    """Every setting of a request, as keywords of `generate`, `stream` and `run`; None means not set."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    n: int | None
    effort: Effort | None
    budget: int | None  # thinking tokens; 0: off, -1: as the model likes
    show_reasoning: bool | None
    verbosity: str | None
    user: str | None
    metadata: dict[str, Any] | None
    service_tier: str | None
    logprobs: bool | None
    top_logprobs: int | None
    store: bool | None
    cache_key: str | None
    # beside the neutral settings; `output` is a parameter of its own, so that results have its type
    output_mode: OutputMode | None  # how a typed output is requested; auto: as the model takes it best
    output_retries: int | None  # how often an invalid output is sent back to the model
    system: str | None
    tool_choice: ToolChoice | str | Tool | Sequence[str | Tool] | None
    parallel: bool | None
    strict: Strictness  # refuse what would be lost
    extra: Mapping[str, Any] | None  # put into the body as it is, for any provider
    # fields by the name of a provider or protocol: {"anthropic": {"top_k": 5}}; those of others are reported
    provider_options: Mapping[str, Mapping[str, Any]] | None
    timeout: float | Timeouts | None  # seconds of the whole call, retries and stream included
    tries: int | None  # how often the request is sent where another attempt may help
    # names that providers use for the same settings
    max_output_tokens: int | None
    max_completion_tokens: int | None
    reasoning_effort: Effort | None
    thinking_budget: int | None
    stop_sequences: str | Sequence[str] | None
    response_format: OutputFormat | Wire | Literal["json", "text"] | None


_OWN = ("system", "tool_choice", "parallel")
_SETTINGS = frozenset(Settings.__struct_fields__) - {"extras", "where"}


def request_of(
    model: str,
    conversation: Prompt,
    tools: Iterable[ToolLike],
    settings: Mapping[str, Any],
    stream: bool,
) -> Request:
    system, messages = neutral(messages_of(conversation))
    given = {OTHER_NAMES.get(name, name): value for name, value in settings.items() if value is not None}
    if "system" in given:
        system = (Text(given["system"]), *system)
    if not (messages or system):
        raise ConfigError("The conversation is empty. Pass a prompt or at least one message.")
    return Request(
        model,
        messages,
        system,
        tuple([declare_tool(each) for each in tools_of(tools)]),
        _choice(given.get("tool_choice")),
        given.get("parallel"),
        _settings(given),
        stream,
    )


def _settings(settings: Mapping[str, Any]) -> Settings:
    given = {name: value for name, value in settings.items() if name not in _OWN}
    if not given:
        return Settings()
    unknown = [name for name in given if name not in _SETTINGS]
    if unknown:
        from dragoman.client.loop import RunOptions  # which imports this module

        options = RunOptions.__annotations__
        if unknown[0] in options:
            raise ConfigError(f"{unknown[0]} is an option of run. One request has no use for it.")
        problem = describe_unknown("setting", unknown[0], sorted({"tools", *_OWN, *_SETTINGS, *options}))
        raise ConfigError(f"{problem} Put settings of a single provider into `extra`.")
    if "stop" in given:
        given["stop"] = (given["stop"],) if isinstance(given["stop"], str) else tuple(given["stop"])
    if "output" in given:
        given["output"] = _output(given["output"])
    return Settings(**given)


def _choice(value: Any) -> ToolChoice | None:
    """auto, none, required, the name of a tool, or a list of names."""
    match value:
        case None | ToolChoice():
            return value
        case "auto" | "none" | "required":
            return ToolChoice(value)
        case "any":
            return ToolChoice("required")
        case str():
            return ToolChoice("required", (value,))
        case Tool():
            return ToolChoice("required", (value.name,))
        case list() | tuple():
            names = [str(getattr(tool, "name", tool)) for tool in cast(Iterable[Any], value)]
            return ToolChoice("required", tuple(names))
        case _:
            raise ConfigError(
                f"tool_choice is auto, none, required, a name or a list of names, not {value!r}"
            )


def _output(value: Any) -> OutputFormat:
    """`"json"`, a JSON Schema, or an OutputFormat."""
    match value:
        case OutputFormat():
            return value
        case "json" | "text":
            return OutputFormat(value)
        case _ if is_object(value):
            return OutputFormat("schema", value, "reply")
        case _:
            raise ConfigError(f"output is 'json', 'text' or a JSON Schema, not {value!r}")


class Question(Struct, frozen=True, eq=False):
    """What a caller asks of a model."""

    conversation: Prompt
    model: Model
    tools: Sequence[ToolLike]
    settings: RequestSettings
    expected: ExpectedOutput[Any] | None = None
    stream: bool = False


class PreparedCall(Struct, frozen=True, eq=False):
    """The request as it is sent to one surface of its provider, and what reads its reply."""

    provider: Provider
    pipeline: Pipeline
    losses: Losses
    body: bytes
    url: str
    headers: dict[str, str]
    output_tool: str  # the tool that takes a typed output there

    async def send(self, timeouts: Timeouts) -> Reply | Failure:
        request = OutgoingRequest("POST", self.url, self.headers, self.body)
        return await self.provider.send(request, timeouts)


class ModelCall:
    """A request for a model, at the surface of its provider that loses least; and what reads its reply."""

    def __init__(self, question: Question, adapt: Callable[[Request], Request] | None = None) -> None:
        """`adapt` makes the request of one round of several."""
        settings = question.settings
        check_settings(settings)
        others = {name: value for name, value in settings.items() if name not in _NOT_IN_REQUEST}
        target = self._model = question.model
        self._settings, self._adapt, self.expected = settings, adapt, question.expected
        self.strict: Strictness = settings.get("strict", False)
        self._request = request_of(
            target.name, question.conversation, question.tools, others, question.stream
        )
        self._take(self._choose())
        if self.strict:
            self.losses.refuse(self.strict)
        timeout, provider = settings.get("timeout"), target.provider
        self._timeouts = timeout if isinstance(timeout, Timeouts) else provider.timeouts
        self._seconds = None if isinstance(timeout, Timeouts) else timeout
        self._deadline: float | None = None
        self._tries = max(settings.get("tries") or provider.tries, 1)

    @property
    def provider(self) -> Provider:
        return self._prepared.provider

    @property
    def losses(self) -> Losses:
        return self._prepared.losses

    @property
    def pipeline(self) -> Pipeline:
        """What reads the reply; which it is stands once the request is sent."""
        return self._prepared.pipeline

    def _choose(self) -> PreparedCall:
        provider = self._model.provider
        surfaces = present(provider.surfaces, provider.missing, _protocol)
        least: LeastLoss[PreparedCall] = LeastLoss()
        first = self._prepare(surfaces[0])
        if not least.offer(first, first.losses):
            for surface in surfaces[1:]:
                try:
                    other = self._prepare(surface)
                except DragomanError:  # it cannot say this request at all
                    continue
                if least.offer(other, other.losses):
                    break
        return least.best

    def _prepare(self, provider: Provider) -> PreparedCall:
        codec, losses, name = provider.codec, Losses(), self._model.name
        profile, request = provider.profile(name), self._request
        plan = TranslationPlan(
            NEUTRAL,
            protocol(provider.protocol),
            dialect=provider.dialect,
            recover=provider.recover,
            summarise=provider.summarise,
            origin=provider.issuer,
            profile=profile,
        )
        pipeline = Pipeline(plan, losses)
        if self.expected:
            request = self.expected.prepare(request, codec.limits(profile).schema_rules, profile, losses)
        if self._adapt:
            request = self._adapt(request)
        _, body = pipeline.encode_request(request)
        if options := self._settings.get("provider_options"):
            body = _with_options(body, options, provider, losses)
        headers = {
            "content-type": "application/json",
            **codec.http.headers,
            **codec.http.headers_for(body),
        }
        extra = self._settings.get("extra")
        encoded = jsontext.encode({**body, **extra} if extra else body)
        url = provider.base_url + codec.http.path(name, request.stream)
        tool = self.expected.tool if self.expected else ""
        return PreparedCall(provider, pipeline, losses, encoded, url, headers, tool)

    def _take(self, prepared: PreparedCall) -> None:
        self._prepared = prepared
        if self.expected:
            self.expected.tool = prepared.output_tool

    def time_limit(self) -> AbstractAsyncContextManager[None]:
        """Raises UpstreamError where the call, from its first attempt on, takes more than its timeout."""
        return nullcontext() if self._seconds is None else self._limit(self._seconds)

    @asynccontextmanager
    async def _limit(self, seconds: float) -> AsyncGenerator[None]:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + seconds
        clock = asyncio.timeout_at(self._deadline)
        try:
            async with clock:
                yield
        except TimeoutError:
            if not clock.expired():
                raise
            why = f"provider {self.provider.name}: no complete reply within {seconds:g} s"
            raise UpstreamError(Failure("timeout", why, 504)) from None

    async def send(self) -> Reply:
        """The answer of the upstream, with retries; raises UpstreamError."""
        chosen, provider = self._prepared, self._model.provider

        async def ask(surface: Provider) -> Reply:
            self._take(chosen if surface is chosen.provider else self._prepare(surface))
            return await send_with_retries(self._attempt, self._tries, self._ends_within)

        async with self.time_limit():
            surface, reply = await ask_until_found(chosen.provider, provider.surfaces, ask)
        if surface is not chosen.provider:
            provider.missing.add(chosen.provider.protocol)
        return reply

    def _ends_within(self, seconds: float) -> bool:
        """Whether the time of the call ends before another attempt could begin."""
        return self._deadline is not None and asyncio.get_running_loop().time() + seconds >= self._deadline

    async def read(self, reply: Reply) -> Result[Any]:
        """The whole reply."""
        return self.result(*await self.read_response(reply))

    async def read_response(self, reply: Reply) -> tuple[Response, Wire]:
        """The whole reply in neutral form, and as it came."""
        try:
            async with self.time_limit():
                body = await reply.read(_LARGEST_REPLY)
        except TransportError as error:
            raise UpstreamError(
                Failure("truncated", f"provider {self.provider.name}: {error}", 502)
            ) from error
        finally:
            reply.close()
        try:
            wire = read_body(body, self.provider.codec.name)
            return self.pipeline.decode_response(wire, self.losses), wire
        except (WireError, *TOO_DEEP) as error:
            raise UpstreamError(Failure("server", f"malformed upstream answer: {error}", 502)) from error

    def result(self, response: Response, wire: Wire | list[Any]) -> Result[Any]:
        """`wire`: the reply as it came, or the frames of its stream."""
        if self.strict:
            self.losses.refuse(self.strict)
        restored = self.expected.restore(response) if self.expected else response
        result = Result[Any](restored, wire, list(self.losses), self.provider.name, self.expected)
        result.cost = cost_of(self._model, self._request, response)
        return result

    async def _attempt(self) -> Reply | Failure:
        return await self._prepared.send(self._timeouts)


def _protocol(provider: Provider) -> str:
    return provider.protocol


def _with_options(
    body: Wire, options: Mapping[str, Mapping[str, Any]], provider: Provider, losses: Losses
) -> Wire:
    """`body` with the fields that are meant for this provider, or for its protocol."""
    ours = (provider.protocol, provider.name)
    for name in options:
        if name not in ours:
            why = f"The request goes to {provider.name}, which speaks {provider.protocol}."
            losses.dropped(f"provider_options.{name}", why, "field.unknown")
    for name in dict.fromkeys(ours):
        body = _merge(body, options.get(name, {}), f"provider_options.{name}", losses)
    return body


def _merge(body: Wire, fields: Mapping[str, Any], where: str, losses: Losses) -> Wire:
    out = dict(body)
    for name, value in fields.items():
        old = body.get(name)
        if is_object(old) and is_object(value):
            value = _merge(old, value, f"{where}.{name}", losses)
        elif old is not None and old != value:
            losses.changed(
                f"{where}.{name}", "It replaced the field of that name in the request.", "field.option"
            )
        out[name] = value
    return out
