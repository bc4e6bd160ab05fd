"""The agents that dragoman can start or point at itself: facts about each, as data.

`$url`, `$key` and `$model` stand for the gateway's address, the key it wants and the model to ask for.
"""

from __future__ import annotations

import shlex
from string import Template
from typing import Any

from msgspec import Struct


class Home(Struct, frozen=True, kw_only=True):
    """A folder of the user's home where `file` must say more: `variable` leads the agent to another home."""

    variable: str
    folder: str
    file: str
    settings: dict[str, Any]


class Agent(Struct, frozen=True, kw_only=True):
    """What one agent must be told to talk to a gateway.

    `environment` is set and `arguments` are put before the user's own; `model_*` only where a model was
    chosen. `unset`: variables that would lead the agent elsewhere. `home`: settings that it takes from a file
    only. If nobody says a model, the agent asks for `usual_model`, which the known provider `vendor` has.
    `note`: what it must be told by hand, where it is not started by us.
    """

    title: str
    program: str
    package: str  # on npm
    usual_model: str
    vendor: str = ""
    environment: dict[str, str] = {}
    model_environment: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    model_arguments: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    home: Home | None = None
    note: str = ""

    @property
    def install(self) -> str:
        return f"npm install -g {self.package}"


class Pointed(Struct, frozen=True):
    """An agent's settings with everything filled in."""

    environment: dict[str, str]
    arguments: tuple[str, ...]


AGENTS = {
    "claude": Agent(
        title="Claude Code",
        program="claude",
        package="@anthropic-ai/claude-code",
        vendor="anthropic",
        usual_model="claude-sonnet-4-5",
        # the token rather than ANTHROPIC_API_KEY: about a key, Claude Code asks whether it may be used
        environment={"ANTHROPIC_BASE_URL": "$url", "ANTHROPIC_AUTH_TOKEN": "$key"},
        model_environment={
            "ANTHROPIC_MODEL": "$model",
            "ANTHROPIC_DEFAULT_OPUS_MODEL": "$model",
            "ANTHROPIC_DEFAULT_SONNET_MODEL": "$model",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "$model",
            "CLAUDE_CODE_SUBAGENT_MODEL": "$model",
        },
        unset=(
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ),
    ),
    "codex": Agent(
        title="Codex",
        program="codex",
        package="@openai/codex",
        vendor="openai",
        usual_model="gpt-5",
        environment={"DRAGOMAN_AGENT_KEY": "$key"},
        arguments=(
            *("-c", "model_provider=dragoman"),
            *("-c", "model_providers.dragoman.name=dragoman"),
            *("-c", "model_providers.dragoman.base_url=$url/v1"),
            *("-c", "model_providers.dragoman.env_key=DRAGOMAN_AGENT_KEY"),
            *("-c", "model_providers.dragoman.wire_api=responses"),
        ),
        model_arguments=("-c", 'model="$model"'),
    ),
    "gemini": Agent(
        title="Gemini CLI",
        program="gemini",
        package="@google/gemini-cli",
        vendor="google-ai-studio",
        usual_model="gemini-3-pro-preview",
        environment={"GOOGLE_GEMINI_BASE_URL": "$url", "GEMINI_API_KEY": "$key"},
        model_arguments=("-m", "$model"),
        # a login with Google ignores the address, and no variable says which way to log in
        home=Home(
            variable="GEMINI_CLI_HOME",
            folder=".gemini",
            file="settings.json",
            settings={"security": {"auth": {"selectedType": "gemini-api-key"}}},
        ),
        note="log in by API key",
        unset=("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
    ),
    "opencode": Agent(
        title="OpenCode",
        program="opencode",
        package="opencode-ai",
        usual_model="dragoman",
        environment={
            "OPENCODE_CONFIG_CONTENT": '{"model":"dragoman/$model","small_model":"dragoman/$model",'
            '"provider":{"dragoman":{"npm":"@ai-sdk/openai-compatible","name":"dragoman",'
            '"options":{"baseURL":"$url/v1","apiKey":"$key"},'
            '"models":{"$model":{"name":"$model","tool_call":true,"attachment":true,"reasoning":true}}}}}'
        },
    ),
    "qwen": Agent(
        title="Qwen Code",
        program="qwen",
        package="@qwen-code/qwen-code",
        vendor="dashscope",
        usual_model="qwen3-coder-plus",
        environment={"OPENAI_BASE_URL": "$url/v1", "OPENAI_API_KEY": "$key"},
        model_environment={"OPENAI_MODEL": "$model"},
        arguments=("--auth-type", "openai"),
        model_arguments=("-m", "$model"),
    ),
}


def pointed(agent: Agent, url: str, key: str, model: str | None) -> Pointed:
    """`agent`, told to ask the gateway at `url` for `model`, or for whatever it likes."""
    words = {"url": url, "key": key, "model": model or agent.usual_model}

    def fill(text: str) -> str:
        return Template(text).substitute(words)

    environment = {**agent.environment, **(agent.model_environment if model else {})}
    arguments = (*agent.arguments, *(agent.model_arguments if model else ()))
    return Pointed({name: fill(value) for name, value in environment.items()}, tuple(map(fill, arguments)))


def command_line(agent: Agent, url: str, key: str) -> str:
    """How to start the agent by hand, as one would type it."""
    told = pointed(agent, url, key, None)
    settings = [f"{name}={shlex.quote(value)}" for name, value in told.environment.items()]
    return " ".join([*settings, agent.program, *map(shlex.quote, told.arguments)])
