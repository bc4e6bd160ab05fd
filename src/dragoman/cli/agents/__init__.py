"""The agents that dragoman can start or point at itself: facts about each, as data.

In the texts `$url` and `$key` stand for the gateway's address and key, `$model` for the model to request, and
`$window`, `$input`, `$output` for its sizes in tokens: all of it, what is left for input, the longest reply.
"""

from __future__ import annotations

import re
import shlex
from string import Template
from typing import Any

from msgspec import Struct

from dragoman.core.model_profile import UNKNOWN, ModelProfile
from dragoman.profiles import known

_MOST_OUTPUT = 32_000  # what agents request of a model that could write more


class AgentHome(Struct, frozen=True, kw_only=True):
    """A folder of the user's home where `file` needs other `settings`; `variable` names another home."""

    variable: str
    folder: str
    file: str
    settings: dict[str, Any]


class AgentProgram(Struct, frozen=True, kw_only=True):
    """How one agent is pointed at a gateway.

    `environment` is set and `arguments` come before the user's own; `model_*` only where a model was chosen,
    `limit_*` only where the size of that model is known. `unset`: variables that would lead the agent to
    another server. `home`: settings that it takes from a file only. Without a choice the agent requests
    models of the known provider `vendor`. `note`: what a user must do who starts it by hand.
    """

    title: str
    program: str
    package: str  # on npm
    vendor: str = ""
    environment: dict[str, str] = {}
    model_environment: dict[str, str] = {}
    limit_environment: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    model_arguments: tuple[str, ...] = ()
    limit_arguments: tuple[str, ...] = ()
    search_arguments: tuple[str, ...] = ()  # only where the gateway has a search backend
    unset: tuple[str, ...] = ()
    home: AgentHome | None = None
    note: str = ""

    @property
    def install(self) -> str:
        return f"npm install -g {self.package}"

    @property
    def usual_model(self) -> str:
        """What it requests where nobody chose a model."""
        return known()[self.vendor].default_model if self.vendor else "dragoman"


class AgentSettings(Struct, frozen=True):
    """An agent's settings with everything filled in."""

    environment: dict[str, str]
    arguments: tuple[str, ...]


AGENTS = {
    "claude": AgentProgram(
        title="Claude Code",
        program="claude",
        package="@anthropic-ai/claude-code",
        vendor="anthropic",
        # the token instead of ANTHROPIC_API_KEY: Claude Code asks the user whether it may use a key
        environment={"ANTHROPIC_BASE_URL": "$url", "ANTHROPIC_AUTH_TOKEN": "$key"},
        # One entry in /model. ANTHROPIC_DEFAULT_{OPUS,SONNET,HAIKU}_MODEL would list it three times; the
        # names that Claude Code uses for them reach the chosen model through the gateway
        model_environment={
            "ANTHROPIC_MODEL": "$model",
            "ANTHROPIC_CUSTOM_MODEL_OPTION": "$model",
            "CLAUDE_CODE_SUBAGENT_MODEL": "$model",
        },
        # It assumes 1M tokens for names it does not know, and does not subtract the reply from the window
        # (anthropics/claude-code#68522, #91689)
        limit_environment={
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "$input",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "$output",
        },
        unset=(
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ),
    ),
    "codex": AgentProgram(
        title="Codex",
        program="codex",
        package="@openai/codex",
        vendor="openai",
        environment={"DRAGOMAN_AGENT_KEY": "$key"},
        # Codex requests no catalogue from a provider with env_key, so the window must be given
        limit_arguments=("-c", "model_context_window=$window"),
        arguments=(
            *("-c", "model_provider=dragoman"),
            *("-c", "model_providers.dragoman.name=dragoman"),
            *("-c", "model_providers.dragoman.base_url=$url/v1"),
            *("-c", "model_providers.dragoman.env_key=DRAGOMAN_AGENT_KEY"),
            *("-c", "model_providers.dragoman.wire_api=responses"),
            *("-c", "model_providers.dragoman.supports_websockets=true"),
        ),
        model_arguments=("-c", 'model="$model"'),
        # For names such as gpt-5.6 Codex declares no hosted search; with this it asks /v1/alpha/search
        search_arguments=("-c", "model_providers.dragoman.supports_standalone_web_search=true"),
    ),
    "gemini": AgentProgram(
        title="Gemini CLI",
        program="gemini",
        package="@google/gemini-cli",
        vendor="google-ai-studio",
        environment={"GOOGLE_GEMINI_BASE_URL": "$url", "GEMINI_API_KEY": "$key"},
        model_arguments=("-m", "$model"),
        # a login with Google ignores the address, and no variable selects the kind of login
        home=AgentHome(
            variable="GEMINI_CLI_HOME",
            folder=".gemini",
            file="settings.json",
            settings={"security": {"auth": {"selectedType": "gemini-api-key"}}},
        ),
        note="log in by API key",
        unset=("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
    ),
    "opencode": AgentProgram(
        title="OpenCode",
        program="opencode",
        package="opencode-ai",
        environment={
            "OPENCODE_CONFIG_CONTENT": '{"model":"dragoman/$model","small_model":"dragoman/$model",'
            '"provider":{"dragoman":{"npm":"@ai-sdk/openai-compatible","name":"dragoman",'
            '"options":{"baseURL":"$url/v1","apiKey":"$key"},'
            '"models":{"$model":{"name":"$model","tool_call":true,"attachment":$images,"reasoning":true$limit}}}}}'
        },
    ),
    "qwen": AgentProgram(
        title="Qwen Code",
        program="qwen",
        package="@qwen-code/qwen-code",
        vendor="dashscope",
        environment={"OPENAI_BASE_URL": "$url/v1", "OPENAI_API_KEY": "$key"},
        model_environment={"OPENAI_MODEL": "$model"},
        arguments=("--auth-type", "openai"),
        model_arguments=("-m", "$model"),
    ),
}


class GatewayAccess(Struct, frozen=True):
    """`searches`: the gateway has a search backend."""

    url: str
    key: str
    searches: bool = False


def settings_for(
    agent: AgentProgram, gateway: GatewayAccess, model: str | None, profile: ModelProfile = UNKNOWN
) -> AgentSettings:
    """`agent` pointed at the gateway, for `model`; without one it requests what it likes."""
    window = profile.context_window if model else None
    output = min(profile.max_output or _MOST_OUTPUT, _MOST_OUTPUT, (window or _MOST_OUTPUT * 4) // 4)
    words = {"url": gateway.url, "key": gateway.key, "model": model or agent.usual_model, "output": output}
    words |= {"window": window, "input": window - output} if window else {}
    words["images"] = "false" if profile.images is False else "true"
    words["limit"] = f',"limit":{{"context":{window},"output":{output}}}' if window else ""

    def fill(text: str) -> str:
        return Template(text).substitute(words)

    environment, arguments = {**agent.environment}, [*agent.arguments]
    if model:
        environment |= agent.model_environment
        arguments += agent.model_arguments
    if gateway.searches:
        arguments += agent.search_arguments
    if window:
        environment |= agent.limit_environment
        arguments += agent.limit_arguments
    return AgentSettings(
        {name: fill(value) for name, value in environment.items()}, tuple(map(fill, arguments))
    )


def command_line(agent: AgentProgram, url: str, key: str, model: str | None = None) -> str:
    """How to start the agent by hand, as one would type it; a `$NAME` as the key is left to the shell."""
    settings = settings_for(agent, GatewayAccess(url, key), model)
    variables = [f"{name}={_quote(value, key)}" for name, value in settings.environment.items()]
    return " ".join([*variables, agent.program, *(_quote(value, key) for value in settings.arguments)])


def _quote(value: str, key: str) -> str:
    """In double quotes where the shell must fill in the key, which it does not in single ones."""
    if not key.startswith("$") or key not in value:
        return shlex.quote(value)
    escaped = re.sub(r'[\\"`]', r"\\\g<0>", value)
    return f'"{escaped}"'
