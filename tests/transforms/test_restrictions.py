"""What a model or its server refuses is withheld and reported, whatever the protocols."""

from typing import Any

import pytest

from dragoman import Exchange
from dragoman.core.fold import end, report
from dragoman.core.losses import Losses
from dragoman.core.model import Base64, Media, Message, Request, Settings, Text, ToolDeclaration, ToolResult
from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.profiles import profile_of
from dragoman.protocols import upstream_names, wire_of
from dragoman.transforms.content import WithoutImages
from dragoman.transforms.restrictions import restrict, restricts

IMAGE = Media("image", "image/png", Base64("iVBORw0KGgo"), where="messages[0].content[1]")
ASKED = (Message("user", (Text("hi"),)),)

# name: (profile, settings, settings that are left, losses)
SETTINGS: dict[str, tuple[ModelProfile, dict[str, Any], dict[str, Any], list[str]]] = {
    "a setting that is refused": (
        ModelProfile(refused=("cache_key",)),
        {"cache_key": "k", "user": "u"},
        {"user": "u"},
        ["setting.cache_key.dropped"],
    ),
    "its default is no loss": (
        ModelProfile(refused=("n", "logprobs", "presence_penalty")),
        {"n": 1, "logprobs": False, "presence_penalty": 0.0},
        {},
        [],
    ),
    "a tier that is not there": (
        ModelProfile(service_tiers=("auto", "flex")),
        {"service_tier": "priority"},
        {},
        ["setting.service_tier.dropped"],
    ),
    "a tier that is": (
        ModelProfile(service_tiers=("auto", "flex")),
        {"service_tier": "flex"},
        {"service_tier": "flex"},
        [],
    ),
    "no tiers at all": (ModelProfile(service_tiers=()), {"service_tier": "auto"}, {}, []),
    "B4 fewer tokens than the server takes": (
        ModelProfile(min_output=16),
        {"max_tokens": 1},
        {"max_tokens": 16},
        ["setting.max_tokens.changed"],
    ),
    "more tokens than the model writes": (
        ModelProfile(max_output=8192),
        {"max_tokens": 32_000},
        {"max_tokens": 8192},
        ["setting.max_tokens.changed"],
    ),
    "a number in between": (
        ModelProfile(min_output=16, max_output=8192), {"max_tokens": 99}, {"max_tokens": 99}, []
    ),
}  # fmt: skip


@pytest.mark.parametrize("profile, given, left, codes", SETTINGS.values(), ids=SETTINGS)
def test_settings(profile: ModelProfile, given: dict[str, Any], left: dict[str, Any], codes: list[str]):
    losses = Losses()
    request = restrict(Request("m", ASKED, settings=Settings(**given)), profile, losses)
    assert request.settings == Settings(**left)
    assert [loss.code for loss in losses] == codes


def test_the_parallel_switch():
    losses = Losses()
    request = Request("m", ASKED, parallel=True)
    assert restrict(request, ModelProfile(refused=("parallel",)), losses).parallel is None
    assert [loss.code for loss in losses] == ["setting.parallel.dropped"]


def test_tools_beyond_the_limit():
    losses = Losses()
    tools = tuple(ToolDeclaration(f"t{i}", where=f"tools[{i}]") for i in range(5))
    request = restrict(Request("m", ASKED, tools=tools), ModelProfile(max_tools=3), losses)
    assert [tool.name for tool in request.tools if isinstance(tool, ToolDeclaration)] == ["t0", "t1", "t2"]
    assert [(loss.code, loss.where) for loss in losses] == [
        ("tool.count.dropped", "tools[3]"), ("tool.count.dropped", "tools[4]"),
    ]  # fmt: skip


def test_g76_images_for_a_text_only_model():
    losses = Losses()
    messages = (Message("user", (Text("look"), IMAGE)), Message("user", (ToolResult("1", "f", (IMAGE,)),)))
    runs = [WithoutImages().begin()]
    seen = end(runs, messages)
    report(runs, losses)
    assert all(isinstance(part, Text) for part in seen[0].parts)
    result = seen[1].parts[0]
    assert isinstance(result, ToolResult)
    assert all(isinstance(part, Text) for part in result.content)
    assert {loss.code for loss in losses} == {"media.image.changed"}


def test_an_unknown_model_is_not_restricted():
    assert not restricts(UNKNOWN)
    request = Request("m", ASKED, settings=Settings(cache_key="k", max_tokens=1))
    assert restrict(request, UNKNOWN, Losses()) is request


PIXEL = "data:image/png;base64,iVBORw0KGgo="
SEEN = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PIXEL}}]


@pytest.mark.parametrize("upstream", upstream_names())
def test_every_protocol_heeds_the_profile(upstream: str):
    profile = ModelProfile(refused=("cache_key", "user"), min_output=16, images=False)
    exchange = Exchange("openai-responses", upstream, profile=profile)
    body = exchange.request(
        {
            "model": "m",
            "input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}],
            "prompt_cache_key": "secret-key",
            "safety_identifier": "secret-user",
            "max_output_tokens": 1,
        }
    )
    if wire_of(upstream) == "openai-responses":  # forwarded as it is
        return
    assert "secret" not in str(body)
    assert "iVBORw0KGgo" not in str(body)
    assert {"setting.cache_key.dropped", "setting.user.dropped", "setting.max_tokens.changed"} <= {
        loss.code for loss in exchange.losses
    }


# provider: (model, what the body must not hold)
REFUSED = {
    "B2 groq": ("groq", "openai/gpt-oss-120b", {"prompt_cache_key", "service_tier"}),
    "B2 cerebras": ("cerebras", "gpt-oss-120b", {"prompt_cache_key", "service_tier"}),
    "mistral": ("mistral", "mistral-large-latest", {"service_tier", "user"}),
}


@pytest.mark.parametrize("provider, model, refused", REFUSED.values(), ids=REFUSED)
def test_servers_that_refuse_fields(provider: str, model: str, refused: set[str]):
    exchange = Exchange("openai-responses", "openai-chat", profile=profile_of(model, provider, "openai-chat"))
    wire = {"model": model, "input": "hi", "prompt_cache_key": "k", "service_tier": "priority", "user": "u"}
    assert not refused & exchange.request(wire).keys()
    assert len(exchange.losses) == len(refused)
