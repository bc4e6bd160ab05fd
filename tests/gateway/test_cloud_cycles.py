"""Full tool cycles at the clouds: every client over each protocol that only upstreams speak, with the
official SDKs at one end and the scripted model at the other; botocore checks what reaches Converse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import botocore.session
import pytest
from botocore.validate import ParamValidator
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from dragoman.core import jsontext
from dragoman.demo import DemoApp, transports
from dragoman.demo.answers import ScriptedAnswer
from gateway.sdks import SDKS, Anthropic, Gemini
from gateway.stands import CLIENT_KEY, UPSTREAM_KEY, Stand, gateway
from gateway.test_sdk_cycles import hold_conversation

TOKEN = f'credentials = {{ token = "{UPSTREAM_KEY}" }}'
KEY = f'api_key = "{UPSTREAM_KEY}"'
PLACE = "projects/p/locations/europe-west4"
# provider: (protocol, what follows the origin in its base URL, key, model, more)
CLOUDS = {
    "azure": ("azure-openai", "/openai/v1", KEY, "my-deployment", ""),
    "azure-responses": ("azure-responses", "/openai/v1", KEY, "my-deployment", ""),
    "vertex": ("vertex-gemini", f"/v1beta1/{PLACE}", TOKEN, "gemini-3-pro-preview", ""),
    "claude-at-vertex": ("vertex-claude", f"/v1/{PLACE}", TOKEN, "claude-sonnet-4-5@20250929", ""),
    "invoke": ("bedrock-invoke", "", KEY, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
    "converse": ("bedrock-converse", "", KEY, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
    "nova": ("bedrock-converse", "", KEY, "us.amazon.nova-pro-v1:0", ""),
    "spoken": (
        "bedrock-converse",
        "",
        KEY,
        "us.meta.llama4-maverick-17b-instruct-v1:0",
        'dialect = "hermes"',
    ),
}
CONVERSE = (
    botocore.session.get_session()
    .get_service_model("bedrock-runtime")
    .operation_model("Converse")
    .input_shape
)


class AtVertex(Anthropic):
    """Anthropic's client of Vertex."""

    def __init__(self, url: str, key: str) -> None:
        options: dict[str, Any] = {"region": "r", "project_id": "p", "access_token": key, "max_retries": 0}
        options["base_url"] = f"{url}/v1"
        self.sync: Any = anthropic.AnthropicVertex(**options)  # pyright: ignore[reportPrivateImportUsage] - documented, not in __all__


class AtBedrock(Anthropic):
    """Anthropic's client of Bedrock."""

    def __init__(self, url: str, key: str) -> None:
        options: dict[str, Any] = {"api_key": key, "aws_region": "us-east-1", "max_retries": 0}
        self.sync: Any = anthropic.AnthropicBedrock(base_url=url, **options)  # pyright: ignore[reportPrivateImportUsage] - documented, not in __all__


class GeminiAtVertex(Gemini):
    """Google's client in its Vertex mode."""

    def __init__(self, url: str, key: str) -> None:
        self.sync = genai.Client(
            vertexai=True,
            project="p",
            location="europe-west4",
            credentials=Credentials(key),
            http_options=types.HttpOptions(base_url=url),
        )


CLIENTS: dict[str, Any] = {**SDKS, "vertex": GeminiAtVertex, "vertex-claude": AtVertex, "bedrock": AtBedrock}
PROTOCOL = {"vertex": "gemini", "vertex-claude": "anthropic", "bedrock": "anthropic"}


@pytest.fixture(scope="module")
def refused() -> Iterator[list[str]]:
    """What botocore would not have sent to Converse."""
    problems: list[str] = []
    answer = transports.answer

    def checked(method: str, path: str, *rest: Any) -> ScriptedAnswer:
        if "/converse" in path:
            body: Any = jsontext.decode(rest[2])
            report = ParamValidator().validate({**body, "modelId": "m"}, CONVERSE)
            problems.extend([report.generate_report()] if report.has_errors() else [])
        return answer(method, path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transports, "answer", checked)
        yield problems


@pytest.fixture(scope="module")
def clouds(behind: tuple[DemoApp, str], refused: list[str]) -> Iterator[Stand]:
    rows = [f'[server]\nkeys = ["{CLIENT_KEY}"]\n']
    for name, (protocol, place, key, _, more) in CLOUDS.items():
        rows.append(
            f'[providers.{name}]\nprotocol = "{protocol}"\nbase_url = "{behind[1]}{place}"\n{key}\n{more}\n'
        )
    with gateway("\n".join(rows)) as stand:
        yield stand


@pytest.mark.parametrize("mode", ["whole", "streamed"])
@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_conversation(clouds: Stand, refused: list[str], client: str, cloud: str, mode: str) -> None:
    clouds.begin()
    sdk = CLIENTS[client](clouds.url, CLIENT_KEY)
    hold_conversation(sdk, mode, f"{cloud}:{CLOUDS[cloud][3]}")
    last = clouds.last()
    found = (last["client"], last["provider"], last["upstream"], last["status"])
    assert found == (PROTOCOL.get(client, client), cloud, CLOUDS[cloud][0], 200)
    assert refused == []
