"""OpenTelemetry spans for exchanges, in the words of its conventions for generative AI.

Only where the package is installed (the extra `otel`) and the usual variables name a collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from dragoman.core.optional import MissingExtraError
from dragoman.gateway.request import ExchangeRecord

_NAMED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_EXPORTERS = {
    "otlp": ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "OTLPSpanExporter"),
    "console": ("opentelemetry.sdk.trace.export", "ConsoleSpanExporter"),
}


def traces_for(environ: Mapping[str, str]) -> Traces | None:
    """None unless the environment asks for traces; MissingExtraError if they cannot be had."""
    if not any(environ.get(name) for name in _NAMED) or environ.get("OTEL_SDK_DISABLED") == "true":
        return None
    module, name = _EXPORTERS.get(environ.get("OTEL_TRACES_EXPORTER", "otlp"), ("", ""))
    if not module:  # "none", and whatever this gateway does not know
        return None
    try:
        exporter = getattr(import_module(module), name)()
        sdk, export = (
            import_module("opentelemetry.sdk.trace"),
            import_module("opentelemetry.sdk.trace.export"),
        )
        resources = import_module("opentelemetry.sdk.resources")
    except ImportError as error:
        raise MissingExtraError(error.name or "opentelemetry", "otel") from None
    named = {"service.name": environ.get("OTEL_SERVICE_NAME", "dragoman")}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    return Traces(provider.get_tracer("dragoman"))


class Traces:
    """`tracer` is OpenTelemetry's."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._trace = import_module("opentelemetry.trace")
        self._propagate = import_module("opentelemetry.propagate")

    def begin(self, record: ExchangeRecord, headers: Mapping[str, str]) -> None:
        """The client's own span, where its headers name one, is the parent."""
        parent = self._propagate.extract({name: headers[name] for name in headers})
        record.span = self._tracer.start_span("chat", context=parent, kind=self._trace.SpanKind.CLIENT)

    def end(self, record: ExchangeRecord, losses: Mapping[str, int]) -> None:
        span = record.span
        span.update_name(f"{_operation(record)} {record.model}".strip())
        span.set_attributes(
            {name: value for name, value in _attributes(record, losses).items() if value is not None}
        )
        if record.failure or record.gone:
            problem = record.failure.message if record.failure else "the client left"
            span.set_attribute("error.type", record.failure.kind if record.failure else "client_gone")
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, problem))
        span.end()


def trace_headers(span: Any) -> dict[str, str]:
    """The headers by which an upstream that traces too goes on with this span."""
    headers: dict[str, str] = {}
    context = import_module("opentelemetry.trace").set_span_in_context(span)
    import_module("opentelemetry.propagate").inject(headers, context)
    return headers


def _operation(record: ExchangeRecord) -> str:
    return "chat" if record.action == "generate" else record.action


def _attributes(record: ExchangeRecord, losses: Mapping[str, int]) -> dict[str, str | int | float | None]:
    usage, target = record.usage, record.target
    return {
        "gen_ai.operation.name": _operation(record),
        "gen_ai.provider.name": record.provider or None,
        "gen_ai.request.model": record.model or None,
        "gen_ai.response.model": target.model if target else None,
        "gen_ai.usage.input_tokens": usage.input if usage else None,
        "gen_ai.usage.output_tokens": usage.output if usage else None,
        "gen_ai.server.time_to_first_token": record.first,
        "http.response.status_code": record.status or None,
        "dragoman.client": record.client,
        "dragoman.upstream": target.provider.protocol if target else None,
        "dragoman.tools": record.tools,
        "dragoman.calls": record.calls,
        "dragoman.tries": record.tries,
        "dragoman.losses": sum(losses.values()),
    }
