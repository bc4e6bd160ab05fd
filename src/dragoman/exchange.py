"""The product on one page: one request and its response, from a client's protocol to an upstream's."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from dragoman.core import jsontext, seal
from dragoman.core.body import Body
from dragoman.core.codec import Codec
from dragoman.core.errors import ConfigError, UpstreamError, WireError
from dragoman.core.events import EventStage
from dragoman.core.fields import read_body
from dragoman.core.jsontext import TOO_DEEP
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import Failure, Request, Usage, Wire
from dragoman.core.repeated import keep, printed, recall
from dragoman.core.stage import Pipe
from dragoman.dialects import dialect as find_dialect
from dragoman.dialects import recovery
from dragoman.pipeline import Forwarded, Translated
from dragoman.protocols import codec, server
from dragoman.protocols import upstream as find_upstream
from dragoman.transforms.ledger import Ledger
from dragoman.transforms.restorer import Restorer
from dragoman.transforms.sequence import Sequencer
from dragoman.transforms.session import Conversation

_SEALED = seal.MAGIC.encode()


class Exchange:
    """One request and its response, with the names and ids that tie them together.

    `origin` names who makes the opaque state of the response, where the protocol alone does not say
    it (a provider, an account); state goes back only to the origin that made it. `reply_id` is the id of a
    reply that the upstream gives none; some clients take two replies with one id for one.
    """

    path = ""
    status = 200
    failure: Failure | None = None
    resumed = False  # only what is new was asked for
    _asked: Request | None = None  # the client's request, in neutral form
    _conversation: Conversation | None = None  # where the upstream keeps it
    _ledger: Ledger | None = None  # from the first thing on that is translated
    _passed: Wire | None = None  # a whole reply that passes as it is, as far as it was read

    def __init__(
        self,
        client: str,
        upstream: str,
        dialect: str | None = None,
        strict: bool = False,
        images: Literal["native", "summary"] = "native",
        recover: bool = False,
        origin: str = "",
        reply_id: str = "",
    ) -> None:
        if images not in ("native", "summary"):
            raise ConfigError(f"images is 'native' or 'summary', not {images!r}")
        self.client, self.upstream = codec(client), find_upstream(upstream)
        if self.upstream.session:
            dialect = dialect or self.upstream.session.dialect
        self.dialect = find_dialect(dialect) if dialect else None
        self.strict, self.recover = strict, recover
        self.headers: dict[str, str] = {}
        self._summarise = images == "summary"
        self._origin, self._reply_id = origin or upstream, reply_id
        self._losses = Losses()
        self._foreign = self.client.name != self.upstream.name
        self._same = client == upstream and not (dialect or recover or self._summarise)

    @property
    def losses(self) -> list[Loss]:
        """What did not survive so far; `where` names the field as its source spells it."""
        return list(self._losses)

    @property
    def usage(self) -> Usage | None:
        """What a reply said about its tokens, whole or translated; None until it has ended."""
        if self._passed is not None:
            return server(self.upstream.name).tally.counted(self._passed)
        return self._ledger.usage if self._ledger else None

    @property
    def calls(self) -> int:
        """How many tool calls it held."""
        if self._passed is not None:
            return server(self.upstream.name).tally.calls(self._passed)
        return self._ledger.called if self._ledger else 0

    def request(self, body: Wire | bytes | str, model: str | None = None, stream: bool | None = None) -> Wire:
        """The client's request as the upstream takes it.

        `model` and `stream` say what the client's URL said, or override what its body says.
        """
        wire = read_body(body, self.client.name)
        if self._same and not _has_seals(jsontext.encode(wire)):
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
        """Like `request`, printed; `wire` is what `body` says, where somebody has read it already.

        Between equal protocols the very bytes pass, but for the name of the model.
        """
        if not isinstance(body, Body):
            glance = server(self.client.name).tally.request if self._same else None
            body = Body(body, self.client.name, glance, wire)
        if not self._same or _has_seals(body.data):
            try:
                out = self._translate(recall(body.wire), model, stream)
                return jsontext.encode(printed(out, self._asked.tools if self._asked else ()))
            except TOO_DEEP:
                raise _too_deep(self.client) from None
        changes = self._forward(body.glance, model, stream)
        if not changes:
            return body.data
        if "stream" not in changes:
            renamed = jsontext.replaced(body.data, "model", body.glance.get("model"), changes["model"])
            if renamed is not None:
                return renamed
        return jsontext.encode({**body.wire, **changes})

    def _translate(self, wire: Wire, model: str | None, stream: bool | None) -> Wire:
        heard = Losses()  # what is lost to other protocols; its own gets it back in extras
        asked = self.client.decode_request(wire, heard)
        asked = replace(
            asked,
            model=asked.model if model is None else model,
            stream=asked.stream if stream is None else stream,
        )
        self._asked = asked
        ledger = self._ledger = self._new_ledger(asked.model)
        request = ledger.prepare(asked, self._summarise)
        if self.dialect:
            request = self.dialect.render(request, self._losses)
        if self.upstream.session:
            self._conversation = Conversation(self.upstream.session, asked, request)
            request = self._conversation.begin()
        out = self.upstream.encode_request(request, self._losses)
        self._losses.respell(self.client.spelling, heard if self._foreign else ())
        if self.strict:
            self._losses.refuse()
        self._address(request.model, request.stream, out)
        keep(wire, asked.tools)
        return out

    @property
    def keeps(self) -> bool:
        """Whether the upstream keeps conversations."""
        return self.upstream.session is not None

    @property
    def follows(self) -> str:
        """Where the upstream keeps conversations: under which name this one was `kept`; empty: it begins."""
        return self._conversation.follows if self._conversation else ""

    def resume(self, handle: Wire) -> Wire:
        """The request again, with only what is new, in the conversation that was `kept` with this handle."""
        if not self._conversation:
            raise ConfigError("a conversation is resumed after its request, at an upstream that keeps them")
        self.resumed = True
        return self.upstream.encode_request(self._conversation.resume(handle), Losses())

    @property
    def kept(self) -> tuple[str, Wire] | None:
        """After a whole reply: the name under which to keep the conversation, and its handle."""
        return self._conversation.kept() if self._conversation else None

    def response(self, body: Wire | bytes | str) -> Wire:
        """The upstream's whole reply as the client takes it; an error becomes the client's error body."""
        wire = read_body(body, self.upstream.name)
        failure = self.upstream.decode_error(wire, 0)
        if failure:
            return self.error(failure)
        if self._same:
            self._passed = wire
            return wire
        try:
            return self._restored(wire)
        except UpstreamError as error:
            return self.error(error.failure)
        except TOO_DEEP:
            raise _too_deep(self.upstream) from None

    def _restored(self, wire: Wire) -> Wire:
        heard = Losses()
        whole = self.upstream.decode_response(wire, heard)
        for stage in self._stages():
            whole = stage.whole(whole)
        if self._foreign:
            self._losses.extend(heard)
        out = self.client.encode_response(whole, self._losses, self._asked)
        if self.strict:
            self._losses.refuse()
        return out

    def response_bytes(self, body: bytes) -> bytes:
        """Like `response`, printed; between equal protocols the very bytes pass."""
        seen = server(self.upstream.name).tally.reply.read(body) if self._same else None
        if seen is None or self.upstream.decode_error(seen, 0):
            told = self.response(body)
            return body if told is self._passed else jsontext.encode(told)
        self._passed = seen
        return body

    def error(self, failure: Failure) -> Wire:
        """A failure as the client's protocol says it; `status` is then the HTTP status to answer with."""
        self.failure = failure
        self.status, body = self.client.encode_error(failure)
        return body

    def stream(self, array: bool = False) -> Forwarded | Translated:
        """Upstream's bytes -> client's bytes. `array`: a Gemini client that did not ask for SSE."""
        if self._same and not array:
            return Forwarded(self.client, lambda: self._translated(array))
        return self._translated(array)

    def _translated(self, array: bool) -> Translated:
        stages = Pipe(self._stages())
        return Translated(self.upstream, self.client, stages, self._losses, self._asked, self.strict, array)

    def _stages(self) -> list[EventStage]:
        """What stands between decoding and encoding a response."""
        stages: list[EventStage] = [Sequencer()]
        if self._ledger is None:
            self._ledger = self._new_ledger("")
        tools = self._ledger.prepared.tools if self._ledger.prepared else ()  # as the prompt declares them
        if self.dialect:
            stages.append(self.dialect.parser(tools, self._losses))
        elif self.recover:
            stages.append(recovery(tools, self._losses))
        stages.append(Restorer(self._ledger, self._reply_id))
        if self._conversation:
            stages.append(self._conversation)
        return stages

    def _new_ledger(self, model: str) -> Ledger:
        return Ledger(
            self.client.limits(""),
            self.upstream.limits(model),
            self._origin,
            self.upstream.name,
            self._losses,
        )

    def _forward(self, wire: Wire, model: str | None, stream: bool | None) -> Wire:
        """The same protocol on both sides: the fields that routing must change."""
        said, streams = wire.get("model"), bool(wire.get("stream"))
        stream = streams if stream is None else stream
        self._address(str(model or said or ""), stream, wire)
        if not self.client.http.model_in_body:
            return {}
        changes = {} if model is None or model == said else {"model": model}
        return changes if stream == streams else {**changes, "stream": stream}

    def _address(self, model: str, stream: bool, body: Wire) -> None:
        http = self.upstream.http
        self.path = http.path(model, stream)
        self.headers = {"content-type": "application/json", **http.headers, **http.headers_for(body)}


def _too_deep(speaker: Codec) -> WireError:
    return WireError(speaker.name, "", "nested too deeply")


def _has_seals(body: bytes) -> bool:
    """Whether the history holds state that another upstream made while this client spoke through us."""
    return body.rfind(_SEALED) >= 0  # from behind it is found, or not, in half the time
