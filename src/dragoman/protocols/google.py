"""What Google's two APIs, generateContent and Interactions, share: schemas, tools, errors, lists, files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from dragoman.core.failures import bounded_wait, kind_of, recognise_overflow, status_of, with_opening, words
from dragoman.core.fields import Table, rows, word_set
from dragoman.core.jsontext import is_object
from dragoman.core.losses import Losses
from dragoman.core.model import (
    AnyTool,
    Base64,
    Failure,
    FailureKind,
    HostedTool,
    Plain,
    ToolDeclaration,
    Value,
    Wire,
)
from dragoman.core.model_profile import ModelProfile
from dragoman.core.schema_rules import SchemaRules
from dragoman.serving.server import ListedModel, read_list

# Schemas

# JSON Schema in declarations: Gemini honours these keywords. It takes `$ref` only into `$defs`, alone in its
# node, and a cycle only through a property that is not required (seen in real traffic).
GOOGLE_SCHEMAS = SchemaRules(
    vendor="Gemini",
    keywords=word_set(
        "$defs $ref type format title description enum items prefixItems minItems maxItems minimum "
        "maximum anyOf properties additionalProperties required propertyOrdering"
    ),
    cycles="optional",
    plain_root=True,
    largest_max_items=960,  # beyond this Gemini refuses the request and does not say why
)

# Tools


def chosen_tools(
    tools: tuple[AnyTool, ...], profile: ModelProfile, is_native: Callable[[Value], bool], losses: Losses
) -> Iterable[AnyTool]:
    """Before Gemini 3, functions and hosted tools exclude each other: functions stay (G89: bifrost#6065)."""
    if profile.combined_tools or not any(isinstance(tool, ToolDeclaration) for tool in tools):
        return tools
    for tool in tools:
        if isinstance(tool, HostedTool) and not is_native(tool):
            why = "The model takes no hosted tools beside functions."
            losses.dropped(tool.where, why, f"hosted.{tool.kind}")
    return [tool for tool in tools if isinstance(tool, ToolDeclaration) or is_native(tool)]


# Errors

# error.status <-> kind of failure; core.failures has the HTTP status
ERRORS: Table[FailureKind] = Table(
    ("INVALID_ARGUMENT", "bad_request"),
    ("INVALID_ARGUMENT", "context_too_long"),
    ("INVALID_ARGUMENT", "too_large"),
    ("FAILED_PRECONDITION", "bad_request"),
    ("OUT_OF_RANGE", "bad_request"),
    ("UNIMPLEMENTED", "bad_request"),
    ("UNAUTHENTICATED", "unauthenticated"),
    ("PERMISSION_DENIED", "forbidden"),
    ("NOT_FOUND", "not_found"),
    ("ABORTED", "conflict"),
    ("ALREADY_EXISTS", "conflict"),
    ("RESOURCE_EXHAUSTED", "rate_limit"),
    ("RESOURCE_EXHAUSTED", "billing"),
    ("DEADLINE_EXCEEDED", "timeout"),
    ("CANCELLED", "timeout"),
    ("UNAVAILABLE", "overloaded"),
    ("INTERNAL", "server"),
    ("INTERNAL", "truncated"),
    other=("INTERNAL", "server"),
)
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_TOO_LONG = re.compile("token count")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


def decode_error_object(error: Any, status: int = 0) -> Failure:
    """Compatible servers make `error` a string."""
    if not is_object(error):
        return Failure(kind_of(status), words(error), status or 500)
    code, message, name = _status(error.get("code")), words(error.get("message")), words(error.get("status"))
    details = rows(error.get("details"))
    kind = recognise_overflow(ERRORS.decode(name) if name else kind_of(status or code), message)
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        kind = "unauthenticated"
    return Failure(kind, message, status or code or status_of(kind), name, _retry_after(details))


def encode_error(failure: Failure) -> tuple[int, Wire]:
    """`error` is the first and only key: google-genai overlooks it elsewhere."""
    message, status = failure.message, status_of(failure.kind)
    if failure.kind == "context_too_long":
        opening = "The input token count exceeds the maximum number of tokens allowed"
        message = with_opening(message, opening, _TOO_LONG)
    error: Wire = {"code": status, "message": message, "status": ERRORS.encode(failure.kind)}
    if failure.retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{failure.retry_after:g}s"}]
    return status, {"error": error}


def _status(code: Any) -> int:
    return code if isinstance(code, int) and 400 <= code < 600 else 0


def _retry_after(details: list[Wire]) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return bounded_wait(float(found[1]))
    return None


# Model lists


def decode_models(body: Wire) -> tuple[str, ...]:
    return tuple(name.removeprefix("models/") for name in read_list("models", "name")(body))


def encode_models(models: tuple[ListedModel, ...]) -> Wire:
    return {"models": [encode_model(model) for model in models]}


def encode_model(model: ListedModel) -> Wire:
    """Google's list has no word for modalities and efforts; `thinking` is all that it says of them."""
    name, profile = model.name, model.profile
    wire: Wire = {
        "name": f"models/{name}",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }
    known = {
        "inputTokenLimit": profile.context_window,
        "outputTokenLimit": profile.max_output,
        "thinking": profile.reasoning,
    }
    return wire | {key: value for key, value in known.items() if value is not None}


# Files and times

GOOGLE_FILES = "gemini"  # the origin of files that were uploaded to Google
USUAL_TYPES = {
    "image": "image/png",
    "document": "application/pdf",
    "audio": "audio/wav",
    "video": "video/mp4",
}
_URL_SAFE = str.maketrans("-_", "+/")


def standard_base64(data: str) -> str:
    """Base64 in the standard alphabet, padded."""
    if "-" in data or "_" in data:
        data = data.translate(_URL_SAFE)
    return data + "=" * (-len(data) % 4)


def plain_text(source: Base64) -> Plain | None:
    try:
        return Plain(base64.b64decode(source.data, validate=True).decode())
    except ValueError:
        return None


def base64_of(source: Base64 | Plain) -> str:
    if isinstance(source, Base64):
        return source.data
    return base64.b64encode(source.text.encode("utf-8", "replace")).decode()


def is_google_file(uri: str) -> bool:
    """Whether it is a file that was uploaded to Google, which nobody else can open."""
    return uri.startswith(("files/", "gs://")) or (
        uri.startswith("https://generativelanguage.googleapis.com/") and "/files/" in uri
    )


def type_of_url(url: str) -> str:
    """The media type by the file extension of the URL."""
    return _ENDINGS.get(url.partition("?")[0].rpartition(".")[2].lower(), "")


_ENDINGS = {
    **{name: f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "heic", "heif", "bmp")},
    **{name: f"audio/{name}" for name in ("wav", "aac", "ogg", "flac", "aiff")},
    **{name: f"video/{name}" for name in ("mp4", "mpeg", "webm", "avi")},
    **{name: f"text/{name}" for name in ("html", "css", "csv", "xml")},
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "mov": "video/quicktime",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "json": "application/json",
}


def decode_time(text: Any) -> int:
    """Unix time of a moment in ISO 8601, 0 where there is none."""
    if not text or not isinstance(text, str):
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return 0
