"""The product on one page: one request and its response, from a client's protocol to an upstream's."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import cached_property, lru_cache
from typing import Any, Literal

from msgspec.structs import replace

from dragoman.answers import merge, split, stream_answers
from dragoman.core import jsontext, seal
from dragoman.core.caches import cache_tools, copied_if_cached, with_cached_tools, with_encoded_tools
from dragoman.core.codec import Codec, Framing, OutgoingRequest
from dragoman.core.credentials import Credential
from dragoman.core.errors import ConfigError, UpstreamError, WireError
from dragoman.core.failures import read_error_body
from dragoman.core.fields import Body, own, read_body
from dragoman.core.fold import decode_whole
from dragoman.core.jsontext import TOO_DEEP
from dragoman.core.losses import Loss, Losses, Strictness
from dragoman.core.model import Compaction, Failure, HostedTool, Request, Response, Usage, Wire
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.core.overrides import Overrides
from dragoman.core.transport import SharedHeaders
from dragoman.dialects import dialect as find_dialect
from dragoman.forwarding import ForwardedStream, StateTagger, state_tagger
from dragoman.framing.jsonarray import JSON_ARRAY
from dragoman.framing.sse import SSE
from dragoman.memory.conversation_memory import ConversationMemory, Reading
from dragoman.memory.translation import Echo, TranslationTarget, translate
from dragoman.pipeline import EventReader, Pipeline, TranslatedStream, TranslationPlan
from dragoman.profiles import profile_of
from dragoman.protocols import codec, protocol
from dragoman.serving.accounting import ReplyFacts
from dragoman.transforms.overrides import add_extra, apply_overrides, override_wire


class ExchangePlan:
    """What all exchanges between two parties share, looked up once: the gateway has one for each target.

    The parameters are those of `Exchange`. `overrides`: what the operator decides of each request.
    """

    def __init__(
        self,
        client: str,
        upstream: str,
        dialect: str | None = None,
        strict: Strictness = False,
        images: Literal["native", "summary"] = "native",
        recover: bool = False,
        origin: str = "",
        profile: ModelProfile | None = None,
        overrides: Overrides | None = None,
        transcript: bool = False,
    ) -> None:
        if images not in ("native", "summary"):
            raise ConfigError(f"images is 'native' or 'summary', not {images!r}")
        codec(client)  # raises ConfigError for a protocol that only upstreams speak
        self.client, self.upstream = protocol(client), protocol(upstream)
        if session := self.upstream.codec.session:
            dialect = dialect or session.dialect
        self.dialect = find_dialect(dialect) if dialect else None
        self.strict: Strictness = strict
        self.origin, self.is_issuer = origin or upstream, bool(origin)
        self.is_foreign = self.client.codec.name != self.upstream.codec.name
        self.compacts = not self.is_foreign and not dialect  # the upstream understands a request for it
        self.overrides = overrides
        # a cloud may take the very requests of a vendor, at another address
        same = self.client.codec.conversation is self.upstream.codec.conversation
        self.forwards = same and not (dialect or recover or images == "summary")
        self.translation = TranslationPlan(
            self.client.codec.client_limits,
            self.upstream,
            dialect=self.dialect,
            recover=recover,
            summarise=images == "summary",
            origin=self.origin,
            profile=profile,
            transcript=transcript,
        )
        self.lists_hosted = profile is not None and profile.hosted_tools is not None
        self.headers = SharedHeaders({"content-type": "application/json", **self.upstream.codec.http.headers})

    @cached_property
    def key(self) -> Hashable:
        """Stands for everything in it that decides what a request becomes."""
        plan = self.translation
        parties = self.client.codec.name, self.upstream.codec.name, plan.origin
        return (*parties, plan.dialect, plan.summarise, plan.profile, self.overrides, self.compacts)

    @cached_property
    def tagger(self) -> StateTagger:
        return state_tagger(self.upstream.codec.name, self.origin, self.is_issuer)


class Exchange:
    """One request and its response, with the names and ids that tie them together.

    `origin` names the maker of the response's opaque state, where the protocol alone does not identify it
    (a provider, an account); state returns only to the origin that made it. `reply_id` is the id of a reply
    to which the upstream gives none; some clients take two replies with one id for one. `reply_model` is the
    model that replies name, where the upstream knows it under another name; Claude Code drops thinking that
    another model than the requested one made. `reply_created` is the time of a reply without one, in seconds
    since 1970; by default that of the exchange. `profile` holds the facts about the model at its provider; by
    default they are looked up by protocol and model name. `compaction`: the reply is a summary that the model
    writes, whatever the request asks for. `memory`: what was
    made of earlier requests; `request_bytes` does not translate again the messages that it knows.
    `transcript`: the request holds a conversation that is a record. Nothing is invented to please a server:
    the last turn may be the assistant's, and what is missing stays missing.
    """

    def __init__(
        self,
        client: str,
        upstream: str,
        dialect: str | None = None,
        strict: Strictness = False,
        images: Literal["native", "summary"] = "native",
        *,
        recover: bool = False,
        origin: str = "",
        reply_id: str = "",
        profile: ModelProfile | None = None,
        reply_model: str = "",
        reply_created: int | None = None,
        compaction: Compaction | None = None,
        memory: ConversationMemory | None = None,
        transcript: bool = False,
    ) -> None:
        plan = _plan(client, upstream, dialect, strict, images, recover, origin, profile, transcript)
        self._begin(plan, reply_id, reply_model, compaction)
        self._reply_created, self._memory = reply_created, memory

    @classmethod
    def planned(
        cls,
        plan: ExchangePlan,
        reply_id: str = "",
        reply_model: str = "",
        compaction: Compaction | None = None,
        rounds: Callable[[Request], Request] | None = None,
    ) -> Exchange:
        """An exchange with parties that were looked up before. `rounds`: it is one round of several; this
        makes the request of the round, and the reply is read by `read_reply` or `read_stream`."""
        exchange = cls.__new__(cls)
        exchange._begin(plan, reply_id, reply_model, compaction, rounds)
        return exchange

    def _begin(
        self,
        plan: ExchangePlan,
        id: str,
        model: str,
        compaction: Compaction | None,
        rounds: Callable[[Request], Request] | None = None,
    ) -> None:
        """Sets all attributes: what every exchange has in one order is found faster than a default."""
        self._plan, self.client, self.upstream = plan, plan.client.codec, plan.upstream.codec
        self._reply_id, self._reply_model = id, model
        self._reply_created: int | None = None
        self._compaction, self._rounds = compaction, rounds
        self._forwards = plan.forwards and not (compaction or rounds)
        self._memory: ConversationMemory | None = None
        self._losses = Losses()
        self.header_fields: dict[str, str] = {}  # of the upstream's body, which the client said in headers
        self.path, self.streaming = "", False  # after `request`; streaming: `stream` reads the reply
        self.headers: dict[str, str] = {}
        self.resumed = False  # only the new messages were sent
        self._request: Request | None = None  # the client's, in neutral form
        self._known_echo: Echo | None = None
        self._request_wire: Wire | None = None  # where losses are looked up, as is
        self._request_data: bytes | None = None  # where the request was not read into objects
        self._pipeline: Pipeline | None = None  # from the first translation on
        self.status = 200
        self.failure: Failure | None = None
        self._reply_wire: Wire | None = None
        self._reply_body: bytes | None = None  # where the reply was not read into objects
        self._facts: ReplyFacts | None = None  # of a whole reply that passes unchanged

    def __repr__(self) -> str:
        dialect = f", dialect={self._plan.dialect.name!r}" if self._plan.dialect else ""
        losses = f", {len(self._losses)} losses" if len(self._losses) else ""
        return f"Exchange(client={self.client.name!r}, upstream={self.upstream.name!r}{dialect}{losses})"

    @property
    def losses(self) -> list[Loss]:
        """What did not survive so far; `where` and `value` are the field and its text in the source."""
        if not self._losses.items:
            return []
        if self._request_wire is None and self._request_data is not None:
            self._request_wire = read_body(self._request_data, self.client.name)
        if self._reply_wire is None and self._reply_body is not None:
            self._reply_wire = read_body(self._reply_body, self.upstream.name)
        return self._losses.with_values(self._request_wire, self._reply_wire)

    def release_reply(self) -> None:
        """Free a whole reply. Losses have no values of it from now on."""
        self._reply_wire = self._reply_body = None

    @property
    def bare_losses(self) -> list[Loss]:
        """The same without their values, which take time to look up."""
        return [*self._losses.items]

    @property
    def usage(self) -> Usage | None:
        """The tokens of a whole or translated reply; None until it has ended."""
        if self._facts:
            return self._facts.usage
        return self._pipeline.ledger.usage if self._pipeline else None

    @property
    def long_ids(self) -> list[str]:
        """Ids of calls in the reply that carry state and are longer than some clients keep."""
        return self._pipeline.ledger.long_ids if self._pipeline else []

    @property
    def calls(self) -> int:
        """The number of complete tool calls in the reply."""
        if self._facts:
            return self._facts.calls
        return self._pipeline.ledger.called if self._pipeline else 0

    def request(self, body: Wire | bytes | str, model: str | None = None, stream: bool | None = None) -> Wire:
        """The client's request as the upstream takes it.

        `model` and `stream` are what the client's URL contains (Gemini), or override the body.
        """
        wire = read_body(body, self.client.name)
        if self._forwards and self._plan.lists_hosted:
            self._forwards = not self._withholds_tools(wire)
        if self._forwards and self._plan.overrides:
            wire = self._override(wire, model)
        if self._forwards:
            data = jsontext.encode(wire)
            passed = self._plan.tagger.strip(data) if seal.is_in(data) else data
            if passed is not None:
                wire = wire if passed is data else jsontext.decode(passed)
                changes = self._forward(wire, model, stream)
                return {**wire, **changes} if changes else wire
        try:
            return self._translate(wire, model, stream)
        except TOO_DEEP:
            raise _too_deep(self.client) from None

    def request_bytes(
        self,
        body: bytes | Body,
        model: str | None = None,
        stream: bool | None = None,
        wire: Wire | None = None,
    ) -> bytes:
        """Like `request`, as bytes; `wire` is the parsed `body`, where the caller has it already.

        Between equal protocols the bytes pass unchanged, except for the name of the model.
        """
        if not isinstance(body, Body) and (self._forwards or self._memory):
            body = self._outlined(body, wire)
        if isinstance(body, Body):
            if self._forwards:
                body = self._settled(body, model)
            known = self._pass_on(body, model, stream) if self._forwards else None
            if known is not None:
                return known
        try:
            if isinstance(body, Body):
                known = self._translate_known(body, model, stream) if type(body.outline) is Reading else None
                if known is not None:
                    return known
                wire = body.wire
            elif wire is None:
                wire = read_body(body, self.client.name)
            out = self._translate(with_cached_tools(wire), model, stream)
            return jsontext.encode(with_encoded_tools(out, self._request.tools if self._request else ()))
        except TOO_DEEP:
            raise _too_deep(self.client) from None

    def _outlined(self, data: bytes, wire: Wire | None) -> Body:
        """A body, read no further than needed."""
        if wire is not None:
            return Body(data, self.client.name, None, wire)
        if self._forwards or not self._memory:
            return Body(data, self.client.name, self._glance(data))
        return Body(data, self.client.name, outline=self._memory.read("", self.client, data))

    def _settled(self, body: Body, model: str | None) -> Body:
        """With what the operator decides. A hosted tool that the upstream does not run has to be withheld."""
        if self._plan.lists_hosted and self._withholds_tools(body.wire):
            self._forwards = False
        elif self._plan.overrides:
            wire = self._override(body.wire, model)
            return Body(jsontext.encode(wire), self.client.name, None, wire)
        return body

    def _pass_on(self, body: Body, model: str | None, stream: bool | None) -> bytes | None:
        """A request between equal protocols; None where it has to be translated after all."""
        if seal.is_in(body.data) if body.sealed is None else body.sealed:
            stripped = self._plan.tagger.strip(body.data)
            if stripped is None:
                return None
            body = Body(stripped, self.client.name, self._glance(stripped))
        return self._forward_bytes(body, model, stream)

    def _override(self, wire: Wire, model: str | None) -> Wire:
        """A request that passes unchanged, but for what the operator decides."""
        plan = self._plan
        overrides, profile = plan.overrides or Overrides(), plan.translation.profile
        profile = profile or profile_of(model or str(wire.get("model") or ""), "", self.upstream.name)
        self._request_wire = wire
        changed = override_wire(overrides, wire, self.upstream, profile, self._losses)
        self._losses.respell(self.client.spelling, wire)
        return changed

    def _withholds_tools(self, wire: Wire) -> bool:
        """Whether the request declares a hosted tool that the upstream's profile does not list."""
        profile = self._plan.translation.profile
        listed = (profile and profile.hosted_tools) or ()
        head = self.client.decode_request({**wire, self.client.turns: []}, Losses())
        return any(isinstance(tool, HostedTool) and tool.kind not in listed for tool in head.tools)

    def _glance(self, body: bytes) -> Wire | None:
        glance = self._plan.client.server.accounting.request
        return glance.read(body) if glance else None

    def _forward_bytes(self, body: Body, model: str | None, stream: bool | None) -> bytes:
        seen, data = body.glance, body.data
        changes = self._forward(seen, model, stream)
        if not changes:
            return data
        if "stream" not in changes:
            old, new, once = seen.get("model"), changes["model"], body.is_glanced
            renamed = jsontext.replaced_early(data, "model", old, new) if once else None
            renamed = renamed or jsontext.replaced(data, "model", old, new, once)
            if renamed is not None:
                return renamed
        return jsontext.encode({**body.wire, **changes})

    def _translate_known(self, body: Body, model: str | None, stream: bool | None) -> bytes | None:
        """The request as text, where its conversation is known; None where it takes all of it."""
        reading, overrides = body.outline, self._plan.overrides
        if not isinstance(reading, Reading) or self._compaction or self._rounds:
            return None

        def change_head(head: Request, losses: Losses) -> Request:
            head = _routed(head, model, stream)
            if self.header_fields:
                head = self._extended(head)
            return apply_overrides(overrides, head, losses) if overrides else head

        def change_wire(wire: Wire, losses: Losses) -> Wire:
            return add_extra(overrides, wire, losses) if overrides else wire

        key = self._plan.key, model, stream, *self.header_fields.values()
        known = translate(
            reading, self.client, TranslationTarget(key, change_head, change_wire, self._new_pipeline)
        )
        if known is None:
            return None
        self._pipeline, self._losses = known.pipeline, known.losses
        self._request, self._known_echo = known.request, known.echo
        if self._losses.items or known.decoding.items:
            before = known.decoding if self._plan.is_foreign else ()
            self._losses.respell(self.client.spelling, known.source, before)
        if self._plan.strict:
            self._losses.refuse(self._plan.strict)
        self._address(known.sent.model, known.sent.stream, known.wire)
        self._request_data = body.data
        cache_tools(reading.fields, known.request.tools)
        return known.body

    def _extended(self, request: Request) -> Request:
        """`request` with what the client said of it in headers."""
        name = self.client.name
        own_extras = {**self.header_fields, **own(request.extras, name)}
        return replace(request, extras={**(request.extras or {}), name: own_extras})

    def _translate(self, wire: Wire, model: str | None, stream: bool | None) -> Wire:
        decoding = Losses()  # fields that only the client's own protocol has: its extras carry them there
        request = decode_whole(self.client.conversation, wire, decoding)
        if model is not None or stream is not None:
            request = _routed(request, model, stream)
        if self.header_fields:
            request = self._extended(request)
        if overrides := self._plan.overrides:
            request = apply_overrides(overrides, request, self._losses)
        self._request = request
        if self._compaction:
            request = self._request = replace(request, compaction=self._compaction)
        self._pipeline = self._new_pipeline(self._losses)
        adapted = self._rounds(request) if self._rounds else request
        if decoding.items and adapted.messages is not request.messages:
            decoding.leave_out(_places(request) - _places(adapted))  # a part of ours is a call again
        sent, out = self._pipeline.encode_request(adapted)
        if overrides:
            out = add_extra(overrides, out, self._losses)
        if self._pipeline.edits is not None:
            self._request = replace(request, edits=self._pipeline.edits)  # the reply tells what was cleared
        if self._losses.items or decoding.items:
            self._losses.respell(self.client.spelling, wire, decoding if self._plan.is_foreign else ())
        if self._plan.strict:
            self._losses.refuse(self._plan.strict)
        self._address(sent.model, sent.stream, out)
        cache_tools(wire, request.tools)
        self._request_wire = wire
        return out

    def take_messages(self) -> list[list[Any]]:
        """The messages of the request, which are not needed any more once it was encoded: the caller may free
        them. Empty where they are needed."""
        if not self._request or not self._pipeline or self.has_session:
            return []
        taken = [list(self._request.messages), self._pipeline.ledger.take_messages()]
        self._request = replace(self._request, messages=())
        return taken

    @property
    def has_session(self) -> bool:
        """Whether the upstream stores conversations, so that `resume` may send only what is new."""
        return self.upstream.session is not None

    @property
    def session_key(self) -> str:
        """The key under which the previous turn's `next_session` was stored; empty: a new conversation."""
        session = self._pipeline.session if self._pipeline else None
        return session.key if session else ""

    def resume(self, handle: Wire) -> Wire:
        """The request again, with only the new messages, in the conversation that `handle` identifies."""
        pipeline = self._pipeline
        if not pipeline or not pipeline.session:
            raise ConfigError("a conversation is resumed after its request, at an upstream that stores them")
        self.resumed = True
        request = pipeline.session.resume(handle)
        return self.upstream.encode_request(request, Losses(), pipeline.profile or UNKNOWN)

    @property
    def next_session(self) -> tuple[str, Wire] | None:
        """After a complete reply: the key under which to store the conversation, and its handle."""
        session = self._pipeline.session if self._pipeline else None
        return session.next() if session else None

    def response(self, body: Wire | bytes | str, status: int = 200) -> Wire:
        """The upstream's whole reply as the client takes it; an error becomes the client's error body.

        `status` is that of the upstream's reply. With an error status the body may be anything. A body that
        is no JSON object (the HTML page of a proxy, nothing at all) is an error with every status. The
        exchange's `status` is what to answer. WireError: JSON that is no reply of the upstream's protocol.
        """
        if status >= 400:
            return self.error(read_error_body(self.upstream.decode_error, status, body))
        try:
            wire = read_body(body, self.upstream.name)
        except WireError as error:
            return self.error(_unreadable(error))
        out = self._respond(wire)
        if self._request and "tools" in out:  # the reply repeats those of the request
            out["tools"] = copied_if_cached(out["tools"], self._request.tools)
        return out

    def _respond(self, wire: Wire) -> Wire:
        try:
            return self._forward_reply(wire) if self._forwards else self._translate_reply(wire)
        except UpstreamError as error:
            return self.error(error.failure)
        except TOO_DEEP:
            raise _too_deep(self.upstream) from None

    def _forward_reply(self, wire: Wire) -> Wire:
        failure = self.upstream.decode_error(wire, 200)
        if failure:
            raise UpstreamError(failure)
        field, model = self.upstream.model_field, self._reply_model
        self._facts = self._plan.upstream.server.accounting.facts(wire, field)
        if model and field in wire:
            wire = {**wire, field: model}
        data = jsontext.encode(wire)
        tagged = self._plan.tagger.body(data)
        return wire if tagged is data else jsontext.decode(tagged)

    def _translate_reply(self, wire: Wire) -> Wire:
        self._pipeline = pipeline = self._pipeline or self._new_pipeline(self._losses)
        self._reply_wire = wire
        field, several = self.upstream.answers, self.client.answers
        given = wire.get(field) if field and several else None
        if jsontext.is_array(given) and len(given) > 1 and len(self.upstream.join_answers(given)) > 1:
            out = merge([self._translate_answer(each, pipeline) for each in split(wire, field)], several)
        else:
            out = self._translate_answer(wire, pipeline)
        if self._plan.strict:
            self._losses.refuse(self._plan.strict)
        return out

    def _translate_answer(self, wire: Wire, pipeline: Pipeline) -> Wire:
        decoding = Losses()
        response = pipeline.decode_response(wire, decoding)
        if self._plan.is_foreign:
            self._losses.extend(decoding)
        return self.client.encode_response(response, self._losses, self._request)

    def read_reply(self, body: bytes) -> Response:
        """The upstream's whole reply to one round of several, in the client's terms. Raises UpstreamError for
        an error, WireError for a malformed reply."""
        self._reply_wire = wire = read_body(body, self.upstream.name)
        return self._read_pipeline().decode_response(wire, Losses())

    def read_stream(self) -> EventReader:
        """The same for a stream."""
        return self._read_pipeline().read_stream()

    def _read_pipeline(self) -> Pipeline:
        self._pipeline = pipeline = self._pipeline or self._new_pipeline(self._losses)
        return pipeline

    @property
    def client_request(self) -> Request | None:
        """The client's request in neutral form, where it was translated."""
        return self._request

    @property
    def loss_list(self) -> Losses:
        """Where an encoder of the reply reports what it loses."""
        return self._losses

    def response_bytes(self, body: bytes, status: int = 200) -> bytes:
        """Like `response`, as bytes; between equal protocols they pass unchanged."""
        if status >= 400:
            return jsontext.encode(self.response(body, status))
        try:
            return self._reply_bytes(body)
        except WireError:
            out = self.response(body)  # raises again, but for a body that cannot be read at all
            return jsontext.encode(out)

    def _reply_bytes(self, body: bytes) -> bytes:
        if self._forwards:
            return self._forward_reply_bytes(body)
        if self._plan.is_foreign:
            response = self.upstream.read_usual_reply(body)
            if response is not None:
                return self._translate_usual(response, body)
        return jsontext.encode(self._respond(read_body(body, self.upstream.name)))

    def _forward_reply_bytes(self, body: bytes) -> bytes:
        self._facts = facts = self._plan.upstream.server.accounting.reply(body)
        once = facts is not None
        if facts is None:
            out = self._respond(read_body(body, self.upstream.name))
            facts = self._facts
            if facts is None:
                return jsontext.encode(out)
        field, model = self.upstream.model_field, self._reply_model
        if model and facts.model is not None and facts.model != model:
            renamed = jsontext.replaced(body, field, facts.model, model, once)
            if renamed is None:
                renamed = jsontext.encode({**read_body(body, self.upstream.name), field: model})
            body = renamed
        return self._plan.tagger.body(body)

    def _echo(self) -> bytes:
        """What the reply repeats of its request: the same for all requests with this head."""
        encode, known = self.client.echo, self._known_echo
        if encode is None or known is None:
            return b""
        if not known.text:
            known.text = encode(self._request)
        return known.text

    def _translate_usual(self, response: Response, body: bytes) -> bytes:
        self._pipeline = pipeline = self._pipeline or self._new_pipeline(self._losses)
        try:
            response = pipeline.restore(response)
        except UpstreamError as error:
            return jsontext.encode(self.error(error.failure))
        self._reply_body = body
        out = self.client.write_usual_reply(response, self._request, self._echo())
        if out is None:
            out = self.client.encode_response(response, self._losses, self._request)
        if self._request and jsontext.is_object(out):
            out = with_encoded_tools(out, self._request.tools)  # a reply of Responses repeats them
        if self._plan.strict:
            self._losses.refuse(self._plan.strict)
        return jsontext.encode(out)

    def error(self, failure: Failure) -> Wire:
        """A failure in the client's protocol; `status` is then the HTTP status to answer with."""
        self.failure = failure
        self.status, body = self.client.encode_error(failure)
        return body

    def authorized_headers(self, credential: Credential | str, url: str, body: bytes) -> dict[str, str]:
        """All headers of the request to `url`, those for the key included. Some providers want the whole
        request signed, so this is given its body."""
        credential = Credential(key=credential) if isinstance(credential, str) else credential
        outgoing = OutgoingRequest("POST", url, self.headers, body)
        return {**self.headers, **self.upstream.http.authenticate(credential, outgoing)}

    def stream(
        self, array: bool = False, framing: Framing | None = None
    ) -> ForwardedStream | TranslatedStream:
        """Upstream's bytes → client's bytes. `array`: a Gemini client that did not ask for SSE; `framing`:
        any other one that the client's URL demands."""
        framing, plan = JSON_ARRAY if array else framing, self._plan
        if self._forwards and framing is None and plan.upstream.framing is SSE:
            return ForwardedStream(
                self.client, lambda: self._translate_stream(None), self._reply_model, plan.tagger
            )
        return self._translate_stream(framing)

    def _translate_stream(self, framing: Framing | None) -> TranslatedStream:
        self._pipeline = pipeline = self._pipeline or self._new_pipeline(self._losses)
        plan, request = self._plan, self._request
        if request and (request.settings.n or 1) > 1 and self.upstream.answers and self.client.answers:
            return stream_answers(pipeline, plan.upstream, plan.client, request, plan.strict, framing)
        return pipeline.translate_stream(plan.client, request, plan.strict, framing)

    def _new_pipeline(self, losses: Losses) -> Pipeline:
        plan, created = self._plan, self._reply_created
        return Pipeline(
            plan.translation,
            losses,
            self._reply_id,
            self._reply_model,
            int(time.time()) if created is None else created,
            plan.compacts and self._compaction is None,
        )

    def _forward(self, wire: Wire, model: str | None, stream: bool | None) -> Wire:
        """The same protocol on both sides: the fields that routing must change."""
        old_model, old_stream = wire.get("model"), bool(wire.get("stream"))
        if stream is None:
            stream = old_stream
        self._address(str(model or old_model or ""), stream, wire)
        if not self.client.http.model_in_body:
            same = old_model is None or self.path == self.upstream.http.path(str(old_model), stream)
            return {} if model is None or same else {"model": self.client.http.resource(model)}
        changes = {} if model is None or model == old_model else {"model": model}
        return changes if stream == old_stream else {**changes, "stream": stream}

    def _address(self, model: str, stream: bool, body: Wire) -> None:
        http, headers = self.upstream.http, self._plan.headers
        self.streaming = stream
        self.path = http.path(model, stream)
        more = http.headers_for(body) if http.field_headers else None
        self.headers = {**headers, **more} if more else headers


@lru_cache(256)
def _plan(
    client: str,
    upstream: str,
    dialect: str | None,
    strict: Strictness,
    images: Literal["native", "summary"],
    recover: bool,
    origin: str,
    profile: ModelProfile | None,
    transcript: bool,
) -> ExchangePlan:
    return ExchangePlan(
        client, upstream, dialect, strict, images, recover, origin, profile, transcript=transcript
    )


def _unreadable(error: WireError) -> Failure:
    return Failure("server", f"malformed upstream answer: {error}", 502)


def _routed(request: Request, model: str | None, stream: bool | None) -> Request:
    """`request` with what the URL, or routing, decides."""
    model = request.model if model is None else model
    stream = request.stream if stream is None else stream
    if model == request.model and stream == request.stream:
        return request
    return replace(request, model=model, stream=stream)


def _places(request: Request) -> set[str]:
    return {part.where for message in request.messages for part in message.parts}


def _too_deep(codec: Codec) -> WireError:
    return WireError(codec.name, "", "nested too deeply")
