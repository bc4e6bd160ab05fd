"""LiteLLM's config.yaml as dragoman.toml: each field is carried over or named, and the result is valid."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dragoman.cli import main
from dragoman.core import jsontext
from dragoman.core.errors import ConfigError
from dragoman.gateway.config import load
from dragoman.gateway.config.importers.findings import Finding
from dragoman.gateway.config.importers.litellm import Imported, import_litellm
from gateway.canned import Answer, Canned, chat
from gateway.plain import send
from gateway.running import running
from gateway.stands import gateway


def deployment(name: str, model: str, *more: str) -> str:
    rows = "".join(f"      {line}\n" for line in (f"model: {model}", *more))
    return f"  - model_name: {name}\n    litellm_params:\n{rows}"


def models(*entries: str) -> str:
    return "model_list:\n" + "".join(entries)


OPENAI = deployment("gpt-4o", "openai/gpt-4o", "api_key: os.environ/OPENAI_API_KEY")
LOCAL = "api_base: http://127.0.0.1:9/v1"

# name: (the source, what stands in the result, (grade, path) of some findings)
CASES: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "a vendor's model with its usual key": (models(OPENAI), {"models": {"gpt-4o": "openai:gpt-4o"}}, []),
    "a key by another variable": (
        models(deployment("a", "anthropic/claude-x", "api_key: os.environ/TEAM_KEY")),
        {"models": {"a": "anthropic:claude-x"}, "providers": {"anthropic": {"api_key": "env:TEAM_KEY"}}},
        [],
    ),
    "two keys of one vendor": (
        models(
            deployment("a", "groq/x", "api_key: os.environ/ONE"),
            deployment("a", "groq/x", "api_key: os.environ/TWO"),
        ),
        {
            "models": {"a": [{"to": "groq:x", "weight": 1}, {"to": "groq-2:x", "weight": 1}]},
            "providers": {
                "groq": {"api_key": "env:ONE"},
                "groq-2": {
                    "protocol": "openai-chat",
                    "base_url": "https://api.groq.com/openai/v1",
                    "api_key": "env:TWO",
                },
            },
        },
        [],
    ),
    "names of other spellings": (
        models(
            deployment("g", "gemini/g-3"),
            deployment("t", "together_ai/meta/x"),
            deployment("n", "nvidia_nim/a/b", "api_key: os.environ/NVIDIA_API_KEY"),
        ),
        {"models": {"g": "google-ai-studio:g-3", "t": "together:meta/x", "n": "nvidia:a/b"}},
        [],
    ),
    "a model without a prefix": (
        models(deployment("gpt", "gpt-4o"), deployment("c", "claude-x")),
        {"models": {"gpt": "openai:gpt-4o", "c": "anthropic:claude-x"}},
        [],
    ),
    "a server of the Chat API": (
        models(deployment("q", "openai/org/qwen", LOCAL, "api_key: none")),
        {
            "models": {"q": "openai-2:org/qwen"},
            "providers": {
                "openai-2": {
                    "protocol": "openai-chat",
                    "base_url": "http://127.0.0.1:9/v1",
                    "api_key": "none",
                }
            },
        },
        [("exact", "model_list[0].litellm_params.api_key")],
    ),
    "an address by a variable": (
        models(deployment("o", "ollama/qwen:8b", "api_base: os.environ/OLLAMA")),
        {"models": {"o": "ollama:qwen:8b"}, "providers": {"ollama": {"base_url": "env:OLLAMA/v1"}}},
        [],
    ),
    "a server that is not among ours": (
        models(deployment("s", "perplexity/sonar")),
        {
            "models": {"s": "perplexity:sonar"},
            "providers": {
                "perplexity": {
                    "protocol": "openai-chat",
                    "base_url": "https://api.perplexity.ai",
                    "api_key": "env:PERPLEXITYAI_API_KEY",
                }
            },
        },
        [],
    ),
    "wildcards": (
        models(deployment('"lab/*"', '"openai/*"'), deployment('"*"', '"*"')),
        {"models": {"lab/*": "openai:$1"}},
        [("exact", "model_list[1].model_name")],
    ),
    "weights by rpm": (
        models(deployment("a", "groq/x", "rpm: 30"), deployment("a", "mistral/y", "rpm: 10")),
        {"models": {"a": [{"to": "groq:x", "weight": 30}, {"to": "mistral:y", "weight": 10}]}},
        [("approximate", "model_list[0].litellm_params.rpm")],
    ),
    "fractions as weights": (
        models(deployment("a", "groq/x", "weight: 0.9"), deployment("a", "mistral/y", "weight: 0.1")),
        {"models": {"a": [{"to": "groq:x", "weight": 90}, {"to": "mistral:y", "weight": 10}]}},
        [],
    ),
    "an order": (
        models(deployment("a", "groq/x", "order: 2"), deployment("a", "mistral/y", "order: 1")),
        {"models": {"a": ["mistral:y", "groq:x"]}},
        [],
    ),
    "settings": (
        models(
            deployment(
                "deep",
                "openai/o",
                "reasoning_effort: high",
                "temperature: 0.5",
                'max_tokens: "400"',
                "stop: END",
                "extra_body: {a: {b: null, c: 1}}",
            )
        ),
        {
            "models": {
                "deep": {
                    "to": "openai:o",
                    "default": {"max_tokens": 400, "temperature": 0.5, "effort": "high", "stop": ["END"]},
                    "extra": {"a": {"c": 1}},
                }
            }
        },
        [],
    ),
    "thinking": (
        models(deployment("t", "anthropic/c", "thinking: {type: enabled, budget_tokens: 2000}")),
        {"models": {"t": {"to": "anthropic:c", "default": {"budget": 2000}}}},
        [],
    ),
    "headers and timeouts": (
        models(
            deployment(
                "a", "groq/x", "timeout: 20", "stream_timeout: 60", "extra_headers: {X-Team: os.environ/T}"
            )
        ),
        {
            "providers": {
                "groq": {"headers": {"x-team": "env:T"}, "timeouts": {"first_byte": 20.0, "idle": 60.0}}
            }
        },
        [("approximate", "model_list[0].litellm_params.timeout")],
    ),
    "facts and prices": (
        models(
            OPENAI
            + "    model_info:\n      base_model: gpt-4o\n      max_input_tokens: 9000\n"
            + "      input_cost_per_token: 0.000001\n      output_cost_per_token: 0.000002\n      team: x\n"
        ),
        {
            "models": {
                "gpt-4o": {
                    "to": "openai:gpt-4o",
                    "like": "gpt-4o",
                    "context_window": 9000,
                    "price": {"input": 1.0, "output": 2.0},
                }
            }
        },
        [("exact", "model_list[0].model_info.team")],
    ),
    "a credential by name": (
        models(deployment("a", "groq/x", "litellm_credential_name: ours"))
        + "credential_list:\n  - credential_name: ours\n    credential_values: {api_key: os.environ/OURS}\n",
        {"providers": {"groq": {"api_key": "env:OURS"}}},
        [],
    ),
    "fallbacks and aliases": (
        models(OPENAI, deployment("b", "groq/x"), deployment("c", "mistral/y"))
        + "litellm_settings:\n  fallbacks: [{gpt-4o: [b]}]\n  default_fallbacks: [c]\n"
        + "router_settings:\n  model_group_alias: {alias: gpt-4o}\n",
        {
            "models": {
                "gpt-4o": ["openai:gpt-4o", "groq:x", "mistral:y"],
                "b": ["groq:x", "mistral:y"],
                "c": "mistral:y",
                "alias": ["openai:gpt-4o", "mistral:y"],
            }
        },
        [],
    ),
    "a fallback to nobody": (
        models(OPENAI) + "router_settings:\n  fallbacks: [{gpt-4o: [gone]}]\n",
        {"models": {"gpt-4o": "openai:gpt-4o"}},
        [("by hand", "router_settings.fallbacks")],
    ),
    "Azure": (
        models(
            deployment(
                "a",
                "azure/prod",
                "api_base: os.environ/AZ",
                "api_version: 2024-10-21",
                "api_key: os.environ/AZK",
            ),
            deployment(
                "b", "azure/o_series/mini", "api_base: https://r.openai.azure.com/openai/deployments/x"
            ),
        ),
        {
            "models": {"a": "azure:prod", "b": "azure-2:mini"},
            "providers": {
                "azure": {
                    "protocol": "azure-openai",
                    "base_url": "env:AZ/openai/v1",
                    "api_key": "env:AZK",
                },
                "azure-2": {
                    "protocol": "azure-openai",
                    "base_url": "https://r.openai.azure.com/openai/v1",
                    "api_key": "env:AZURE_API_KEY",
                },
            },
        },
        [("approximate", "model_list[0].litellm_params.api_version")],
    ),
    "Azure by Entra, of a credential": (
        models(deployment("a", "azure/prod", "litellm_credential_name: ours"))
        + "credential_list:\n  - credential_name: ours\n    credential_values:\n"
        + "      {api_base: 'https://r.openai.azure.com/', tenant_id: os.environ/T, client_id: c,"
        + " client_secret: os.environ/S}\n",
        {
            "providers": {
                "azure": {
                    "protocol": "azure-openai",
                    "base_url": "https://r.openai.azure.com/openai/v1",
                    "credentials": {"tenant": "env:T", "id": "c", "secret": "env:S"},
                }
            }
        },
        [],
    ),
    "Foundry": (
        models(
            deployment(
                "c", "azure_ai/claude-x", "api_base: https://r.services.ai.azure.com/anthropic", "api_key: k"
            ),
            deployment("d", "azure_ai/deepseek", "api_base: https://r.services.ai.azure.com/models"),
            deployment("e", "azure_ai/llama", "api_base: https://x.eastus2.models.ai.azure.com"),
        ),
        {
            "models": {"c": "azure-ai:claude-x", "d": "azure-ai-2:deepseek", "e": "azure-ai-3:llama"},
            "providers": {
                "azure-ai": {
                    "protocol": "anthropic",
                    "base_url": "https://r.services.ai.azure.com/anthropic",
                    "api_key": "k",
                },
                "azure-ai-2": {
                    "protocol": "azure-openai",
                    "base_url": "https://r.services.ai.azure.com/openai/v1",
                    "api_key": "env:AZURE_AI_API_KEY",
                },
                "azure-ai-3": {
                    "protocol": "openai-chat",
                    "base_url": "https://x.eastus2.models.ai.azure.com/v1",
                    "api_key": "env:AZURE_AI_API_KEY",
                },
            },
        },
        [("approximate", "model_list[1].litellm_params.model")],
    ),
    "Claude at Bedrock": (
        models(
            deployment("a", "bedrock/eu.anthropic.claude-x-v1:0", "aws_region_name: eu-west-1"),
            deployment(
                "b",
                "bedrock/us-west-2/anthropic.claude-y",
                "aws_access_key_id: os.environ/I",
                "aws_secret_access_key: os.environ/S",
                "aws_role_name: r",
            ),
            deployment(
                "c",
                "bedrock/invoke/arn:aws:bedrock:us-east-1:1:application-inference-profile/p",
                "api_key: k",
            ),
            deployment("d", "bedrock/anthropic.claude-z"),
        ),
        {
            "models": {
                "a": "bedrock:eu.anthropic.claude-x-v1:0",
                "b": "bedrock-2:anthropic.claude-y",
                "c": "bedrock-3:arn:aws:bedrock:us-east-1:1:application-inference-profile/p",
                "d": "bedrock-4:anthropic.claude-z",
            },
            "providers": {
                "bedrock": {"protocol": "bedrock-invoke", "region": "eu-west-1"},
                "bedrock-2": {
                    "protocol": "bedrock-invoke",
                    "region": "us-west-2",
                    "credentials": {"id": "env:I", "secret": "env:S"},
                },
                "bedrock-3": {"protocol": "bedrock-invoke", "region": "us-east-1", "api_key": "k"},
                "bedrock-4": {"protocol": "bedrock-invoke", "region": "env:AWS_REGION_NAME"},
            },
        },
        [("by hand", "model_list[1].litellm_params.aws_role_name")],
    ),
    "Vertex AI": (
        models(
            deployment("g", "vertex_ai/gemini-x", "vertex_project: p", "vertex_location: global"),
            deployment("c", "vertex_ai/claude-x@1", "vertex_project: p", "vertex_credentials: /etc/a.json"),
            deployment("j", "gemini-y", 'vertex_credentials: \'{"type": "service_account"}\''),
            deployment("l", "vertex_ai/meta/llama", "vertex_project: p"),
        ),
        {
            "models": {
                "g": "vertex:gemini-x",
                "c": "vertex-claude:claude-x@1",
                "j": "vertex-2:gemini-y",
            },
            "providers": {
                "vertex": {"protocol": "vertex-gemini", "project": "p", "location": "global"},
                "vertex-claude": {
                    "protocol": "vertex-claude",
                    "project": "p",
                    "location": "us-central1",
                    "credentials": {"file": "/etc/a.json"},
                },
                "vertex-2": {
                    "protocol": "vertex-gemini",
                    "project": "env:VERTEXAI_PROJECT",
                    "location": "us-central1",
                },
            },
        },
        [
            ("by hand", "model_list[2].litellm_params.vertex_credentials"),
            ("unsupported", "model_list[3]"),
        ],
    ),
    "clouds without a wire": (
        models(
            deployment("a", "sagemaker/x", "aws_region_name: eu-west-1"),
            deployment("b", "bedrock/amazon.titan-embed-text-v2:0"),
            OPENAI,
        ),
        {"models": {"gpt-4o": "openai:gpt-4o"}},
        [
            ("unsupported", "model_list[0]"),
            ("unsupported", "model_list[1]"),
        ],
    ),
    "settings of the server": (
        models(OPENAI)
        + "general_settings:\n  master_key: os.environ/MASTER\n  database_url: os.environ/DB\n"
        + "  alerting: [slack]\nlitellm_settings:\n  drop_params: true\n  request_timeout: 90\n"
        + "  callbacks: [prometheus, langfuse]\n  cache: true\n",
        {
            "server": {"keys": ["env:MASTER"], "request_timeout": 90.0},
            "store": {"url": "env:DB"},
        },
        [
            ("by hand", "general_settings.database_url"),
            ("unsupported", "general_settings.alerting"),
            ("exact", "litellm_settings.callbacks"),
            ("unsupported", "litellm_settings.callbacks"),
            ("unsupported", "litellm_settings.cache"),
        ],
    ),
    "what nobody knows": (
        models(deployment("a", "groq/x", "odd_thing: 1")) + "odd_section: {a: 1}\n",
        {"models": {"a": "groq:x"}},
        [("unsupported", "model_list[0].litellm_params.odd_thing"), ("unsupported", "odd_section")],
    ),
    "a broken entry": (
        "model_list:\n  - just text\n  - model_name: a\n  - litellm_params: {model: groq/x}\n",
        {},
        [
            ("unsupported", "model_list[0]"),
            ("unsupported", "model_list[1]"),
            ("by hand", "model_list[2].model_name"),
        ],
    ),
    "variables in the file": (
        models(OPENAI) + "environment_variables: {REDIS_HOST: x}\n",
        {},
        [("by hand", "environment_variables.REDIS_HOST")],
    ),
}


@pytest.mark.parametrize("source, result, found", CASES.values(), ids=CASES)
def test_imports(source: str, result: dict[str, Any], found: list[tuple[str, str]]):
    imported = import_litellm(source)
    written = tomllib.loads(imported.text)
    for section, expected in result.items():
        assert written[section] == expected
    named = {(finding.grade, finding.path) for finding in imported.findings}
    assert named >= set(found)
    load(imported.text, imported.stand_ins)


@pytest.mark.parametrize("source", ["[1, 2]", "a: [", "{{ helm }}: 1", "text"])
def test_what_is_no_configuration_is_refused(source: str):
    with pytest.raises(ConfigError, match=r"x\.yaml: "):
        import_litellm(source, "x.yaml")


def test_the_imported_gateway_answers_as_the_file_says():
    """The client's settings win over those of the file, and a failing target is followed by its fallback."""
    down, up = Canned(Answer(503, b"{}")), Canned(Answer(200, chat("hello")))
    with running(down) as first, running(up) as second:
        settings = ("api_key: k", "temperature: 0.5", "top_p: 0.5")
        source = models(
            deployment("a", "openai/one", f"api_base: {first}/v1", "api_key: k", "num_retries: 0"),
            deployment("b", "openai/two", f"api_base: {second}/v1", *settings),
        )
        imported = import_litellm(source + "router_settings:\n  fallbacks: [{a: [b]}]\n")
        with gateway(imported.text) as stand:
            body = {"model": "a", "messages": [{"role": "user", "content": "hi"}], "temperature": 1}
            got = send(stand.url, "POST", "/v1/chat/completions", jsontext.encode(body))
    assert got.status == 200
    sent = up.requests[0].json
    assert [sent.get(name) for name in ("model", "temperature", "top_p")] == ["two", 1, 0.5]
    assert down.requests[0].json["model"] == "one"


def test_the_command_prints_the_file_and_its_findings(tmp_path: Path):
    file, target = tmp_path / "config.yaml", tmp_path / "dragoman.toml"
    file.write_text(models(OPENAI) + "litellm_settings: {cache: true}\n", "utf-8")
    words = [sys.executable, "-m", "dragoman", "import", "litellm", str(file)]
    printed = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert printed.returncode == 0
    assert tomllib.loads(printed.stdout)["models"] == {"gpt-4o": "openai:gpt-4o"}
    assert "unsupported litellm_settings.cache: replies are not cached" in printed.stderr
    subprocess.run([*words, "--write", str(target)], capture_output=True, timeout=120, check=True)
    assert target.read_text("utf-8") == printed.stdout
    assert target.stat().st_mode & 0o777 == 0o600
    again = subprocess.run([*words, "--write", str(target)], capture_output=True, text=True, timeout=120)
    assert again.returncode == 1
    assert "exists already" in again.stderr


def test_the_page_shows_what_the_importer_writes():
    page = (Path(__file__).parents[3] / "docs/how-to/coming-from-litellm.md").read_text("utf-8")
    blocks = [page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("yaml", "toml", "text")]
    source, result, findings = blocks
    got = CliRunner().invoke(main, ["import", "litellm", "-"], input=source)
    assert got.stdout == result
    assert got.stderr.startswith(findings)


def test_findings_are_values():
    imported: Imported = import_litellm(models(OPENAI))
    what = "openai reads OPENAI_API_KEY by itself, for all its models"
    assert imported.findings == (Finding("exact", "model_list[0].litellm_params.api_key", what),)
    assert imported.variables == ()
