"""Model lists."""

from __future__ import annotations

from dragoman.core.model import Wire
from dragoman.core.model_profile import UNKNOWN
from dragoman.protocols.anthropic.context_management import COMPACT, THINKING, TOOL_USES
from dragoman.protocols.anthropic.wire import PROTOCOL_NAME
from dragoman.serving.server import ListedModel


def encode_models(models: tuple[ListedModel, ...]) -> Wire:
    first, last = (models[0].name, models[-1].name) if models else (None, None)
    data = [encode_model(model) for model in models]
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def encode_model(model: ListedModel) -> Wire:
    """Every field of the vendor's schema; what is not known is null."""
    profile = model.profile
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "line": None,
        "max_input_tokens": profile.context_window,
        "max_tokens": profile.max_output,
        "capabilities": None if profile is UNKNOWN else _capabilities(model),
        "deprecated_at": None,
        "retires_at": None,
    }


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EDITS = (TOOL_USES, THINKING, COMPACT)


def _capabilities(model: ListedModel) -> Wire:
    """What a request through the gateway may use. A fact that is not known counts as support, as it does
    where requests are translated."""
    profile, hosted = model.profile, model.hosted_tools
    native = model.protocol == PROTOCOL_NAME
    reasons = profile.reasoning is not False
    efforts = profile.efforts
    if efforts is None:
        efforts = _EFFORTS if reasons else ()
    return {
        "batch": _support(True),
        "citations": _support(native),
        "code_execution": _support(native and "code_execution" in hosted),
        "image_input": _support(profile.images is not False),
        "pdf_input": _support(native and profile.images is not False),
        "structured_outputs": _support(profile.structured_output is not False),
        "context_management": {"supported": True, **{edit: _support(True) for edit in _EDITS}},
        "effort": {
            "supported": bool(efforts),
            **{effort: _support(effort in efforts) for effort in _EFFORTS},
        },
        "server_tools": {
            "supported": "web_search" in hosted or "code_execution" in hosted,
            "web_search": _support("web_search" in hosted),
            "code_execution": _support("code_execution" in hosted),
        },
        "thinking": {
            "supported": reasons,
            "types": {
                "adaptive": _support(reasons),
                "enabled": _support(reasons),
                "disabled": _support(True),
                "between_tools": _support(False),
            },
        },
    }


def _support(supported: bool) -> Wire:
    return {"supported": supported}
