"""One row of a dataset in, one translated row out: the function that every engine maps.

It needs no engine and no Arrow. What it is made of are names, so that it can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.core import jsontext
from dragoman.core.codec import ProtocolLimits
from dragoman.core.errors import ConfigError, DragomanError, WireError
from dragoman.core.fields import describe, read_body
from dragoman.core.jsontext import MALFORMED, TOO_DEEP
from dragoman.core.losses import Loss, Losses
from dragoman.core.model import Request, Wire
from dragoman.datasets.layouts import Layout, layout
from dragoman.datasets.text_calls import find_calls
from dragoman.dialects import dialect
from dragoman.exchange import Exchange, ExchangePlan
from dragoman.pipeline import Pipeline, TranslationPlan
from dragoman.protocols import codec, protocol

Converted = tuple[bytes, list[Loss]]
Convert = Callable[[bytes | Wire], Converted]


class Translation(Struct, frozen=True):
    """From one layout to another; a protocol's name is a layout. An empty `column`, and `fields` that are
    None, are those of the layout: the column with the conversation, and the others that belong to it.

    `source_dialect`: the conversations hold calls as text, in this dialect. `dialect`: the bodies shall.
    `transcript`: a conversation is a record, so nothing is invented that only a server would demand. Without
    it the bodies are requests that can be sent.
    """

    source: str
    target: str
    column: str = ""
    fields: tuple[str, ...] | None = None
    dialect: str | None = None
    source_dialect: str | None = None
    images: Literal["native", "summary"] = "native"
    transcript: bool = True


class TranslatedRow(Struct, frozen=True, gc=False):
    """`body` is JSON text, None where there is an `error`."""

    body: bytes | None
    losses: Sequence[Loss] = ()
    error: str | None = None


class RowTranslator:
    """Called with a row, a mapping from column to value; the row may be wrong in any way.

    The conversation is a JSON text, an object or an array: a whole body, or the messages alone.
    """

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self._layout = layout(translation.source)
        self.column: str = translation.column or self._layout.column
        given = translation.fields
        self.fields: tuple[str, ...] = self._layout.fields + self._layout.texts if given is None else given
        self._texts = frozenset(self._layout.texts)
        protocol = self._layout.protocol
        self._turns = codec(protocol).turns if protocol else self._layout.column
        target = layout(translation.target)
        self._convert = _convert(translation, self._layout, target)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowTranslator, (self.translation,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that it reads; the others it leaves alone."""
        return (self.column, *self.fields)

    def __call__(self, row: Mapping[str, Any]) -> TranslatedRow:
        try:
            return TranslatedRow(*self._convert(self._body(row)))
        except (DragomanError, *TOO_DEEP) as error:
            return TranslatedRow(None, error=str(error) or "nested too deeply")
        except Exception as error:  # a fault of ours must not end a job of a million other rows
            return TranslatedRow(None, error=f"internal error: {type(error).__name__}: {error}")

    def translate_text(self, body: bytes) -> TranslatedRow:
        """The same for a row that is a body as a whole."""
        return self({self.column: body})

    def _body(self, row: Mapping[str, Any]) -> bytes | Wire:
        value = row.get(self.column)
        if isinstance(value, str):
            value = value.encode("utf-8", "surrogatepass")
        if isinstance(value, bytes):
            return self._with_fields(value, row) if value.lstrip()[:1] == b"[" else value
        if jsontext.is_object(value):
            return value
        if not jsontext.is_array(value):
            problem = f"expected a conversation, got {describe(value)}"
            raise WireError(self.translation.source, self.column, problem)
        return self._with_fields(jsontext.encode(value), row)

    def _with_fields(self, messages: bytes, row: Mapping[str, Any]) -> bytes:
        """The body around `messages`, which are alone: the fields that have columns of their own."""
        pieces = [_field(self._turns, messages)]
        for name in self.fields:
            value = row.get(name)
            if value is None or value == "" or value == b"":
                continue
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            is_text = name in self._texts or not isinstance(value, str) or not _is_json(value)
            pieces.append(_field(name, jsontext.encode(value) if is_text else value.encode()))
        return b"{" + b",".join(pieces) + b"}"


def _is_json(text: str) -> bool:
    """Else it is a text itself, as `system` may be."""
    try:
        _check(text)
    except MALFORMED:
        return False
    return True


_check = msgspec.json.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw] | bool).decode


def _field(name: str, text: bytes) -> bytes:
    return b"%b:%b" % (jsontext.encode(name), text)


def _convert(translation: Translation, source: Layout, target: Layout) -> Convert:
    """From body to body, the shortest way between these layouts."""
    if translation.dialect and not target.protocol:
        raise ConfigError(f"{translation.target} has no text dialects. A protocol has: leave dialect out.")
    if source.protocol and target.protocol and not translation.source_dialect:
        plan = ExchangePlan(
            source.protocol,
            target.protocol,
            translation.dialect,
            images=translation.images,
            transcript=translation.transcript,
        )
        return lambda body: _run_exchange(plan, body)
    decode = source.decode or codec(source.protocol).decode_request
    if written := translation.source_dialect:
        dialect(written)  # raises ConfigError
    encode = target.encode or _encoder(translation, target)
    spelling = codec(source.protocol).spelling if source.protocol else None

    def convert(body: bytes | Wire) -> Converted:
        losses = Losses()
        wire = read_body(body, translation.source)
        request = decode(wire, losses)
        if written:
            request = find_calls(request, written, losses)
        out = jsontext.encode(encode(request, losses))
        if spelling:
            losses.respell(spelling, wire)
        return out, [*losses]

    return convert


def _run_exchange(plan: ExchangePlan, body: bytes | Wire) -> Converted:
    exchange = Exchange.planned(plan)
    if isinstance(body, bytes):
        return exchange.request_bytes(body), exchange.bare_losses
    return jsontext.encode(exchange.request(body)), exchange.bare_losses


def _encoder(translation: Translation, target: Layout) -> Callable[[Request, Losses], Wire]:
    limits = ProtocolLimits(protocol=translation.source)
    plan = TranslationPlan(
        limits,
        protocol(target.protocol),
        dialect=dialect(translation.dialect) if translation.dialect else None,
        summarise=translation.images == "summary",
        transcript=translation.transcript,
    )
    return lambda request, losses: Pipeline(plan, losses).encode_request(request)[1]
