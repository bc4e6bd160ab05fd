"""What a gateway needs of Converse beside its codec: accounting and model lists. It has no routes."""

from __future__ import annotations

from dragoman.core.fields import Fields, count, rows
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import Wire
from dragoman.protocols.bedrock_converse.response import decode_usage
from dragoman.serving.accounting import Accounting
from dragoman.serving.server import ListedModel, ProtocolServer, read_list


def _count_calls(body: Wire) -> int:
    output = body.get("output")
    message = output.get("message") if is_object(output) else None
    return sum("toolUse" in block for block in rows(message.get("content") if is_object(message) else None))


def _count_tools(body: Wire) -> int:
    config = body.get("toolConfig")
    return count(config.get("tools")) if is_object(config) else 0


def _list_models(models: tuple[ListedModel, ...]) -> Wire:
    return {"modelSummaries": [_list_model(model) for model in models]}


def _list_model(model: ListedModel) -> Wire:
    return {"modelId": model.name}


SERVER = ProtocolServer(
    routes=(),
    models_path="/foundation-models",
    decode_models=read_list("modelSummaries", "modelId"),
    encode_models=_list_models,
    encode_model=_list_model,
    encode_count=lambda tokens: {"inputTokens": tokens},
    accounting=Accounting(
        reply=lambda body: None,
        tools=_count_tools,
        calls=_count_calls,
        usage=lambda usage: decode_usage(Fields(usage, "usage", "bedrock-converse"), Losses()),
        usage_field="usage",
        call_hint=b"toolUse",
        call_mark=r'"toolUse":\s*\{\s*"(?:toolUseId|name)"',
    ),
    required=("messages",),
)
