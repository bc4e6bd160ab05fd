"""A deployment of LiteLLM's `model_list`: which provider it is for us, and its settings in neutral names."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, to_builtins

from dragoman.core.jsontext import is_array, is_object
from dragoman.gateway.config.importers.findings import SourceTable
from dragoman.gateway.config.importers.litellm_clouds import CLOUDS, Server, Unserved, environment, read_cloud
from dragoman.profiles import find_vendor, known

# Servers that speak Chat and are not among our known providers: their address, from LiteLLM's own table
_COMPATIBLE = {
    "perplexity": "https://api.perplexity.ai",
    "github": "https://models.github.ai/inference",
    "huggingface": "https://router.huggingface.co/v1",
    "hyperbolic": "https://api.hyperbolic.xyz/v1",
    "novita": "https://api.novita.ai/v3/openai",
    "nebius": "https://api.studio.nebius.ai/v1",
    "volcengine": "https://ark.cn-beijing.volces.com/api/v3",
    "meta_llama": "https://api.llama.com/compat/v1",
    "featherless_ai": "https://api.featherless.ai/v1",
    "friendliai": "https://api.friendli.ai/serverless/v1",
    "ai21": "https://api.ai21.com/studio/v1",
}
_KEYS = {
    "azure": "AZURE_API_KEY",
    "azure_ai": "AZURE_AI_API_KEY",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "github": "GITHUB_API_KEY",
    "huggingface": "HF_TOKEN",
    "nvidia_nim": "NVIDIA_NIM_API_KEY",
}
_NAMES = {"ollama_chat": "ollama", "cohere_chat": "cohere", "vllm": "vllm", "google": "google-ai-studio"}
_CHAT = ("openai", "custom_openai", "openai_like", "litellm_proxy", "hosted_vllm", "vllm", "llamafile")
_VENDORS = (  # of a model without a prefix, by the beginning of its name
    (r"gpt-|o\d|chatgpt-|text-embedding-|dall-e|whisper-|tts-|ft:|omni-", "openai"),
    (r"claude", "anthropic"),
    (r"gemini", "vertex_ai"),
    (r"command", "cohere"),
    (r"mistral-|codestral", "mistral"),
    (r"deepseek-", "deepseek"),
    (r"grok-", "xai"),
)
_DEFAULTS = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "n": "n",
}
_WHOLE = frozenset({"max_tokens", "top_k", "seed", "n"})
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_NOTES = ("use_in_pass_through", "use_litellm_proxy", "tags", "configurable_clientside_auth_params")


class Deployment(Struct, frozen=True):
    """`default` by neutral names, `extra` as they are; `facts` are those of a row of `[models]`."""

    provider: str
    model: str
    default: dict[str, Any]
    extra: dict[str, Any]
    facts: dict[str, Any]
    weight: float = 0
    rpm: float = 0
    tpm: float = 0
    order: float = 0


def read_deployment(
    name: str, entry: SourceTable, credentials: dict[str, SourceTable], providers: dict[str, dict[str, Any]]
) -> Deployment:
    """Its provider joins `providers`. Raises Unserved."""
    params, info = entry.table("litellm_params"), entry.table("model_info")
    facts = _facts(params, info)
    full = params.text("model")
    if not full:
        raise Unserved("missing model", "Name the model under [models].")
    _fill_credential(params, credentials)
    prefix, model = _split(full, params.text("custom_llm_provider"))
    api_key, api_base = params.text("api_key"), params.text("api_base") or params.text("base_url")
    if not model:
        raise Unserved(f"{full!r} names no model", "Name the model under [models].")
    server = _server(prefix, model, api_base, params)
    table, base, model = server.table, server.base, server.model
    default, extra = _default(params), _extra(params)
    _connection(params, table, api_key, base)
    shares = {
        kind: params.number(kind) or entry.number(kind) or 0 for kind in ("weight", "rpm", "tpm", "order")
    }
    _report_limits(params, shares)
    if model.startswith("responses/"):
        table["protocol"], model = "openai-responses", model.removeprefix("responses/")
        if "credentials" in table:
            advice = "Use a key, or leave out responses/."
            params.report("by hand", "model", "Entra signs in for Azure's Chat API only", advice)
    params.report_rest()
    provider = _join(providers, base, table)
    return Deployment(provider, model, default, extra, facts, **shares)


def _split(full: str, custom: str) -> tuple[str, str]:
    if custom:
        return custom, full.removeprefix(f"{custom}/")
    prefix, slash, model = full.partition("/")
    if slash and _is_provider(prefix):
        return prefix, model
    found = next((vendor for start, vendor in _VENDORS if re.match(start, full)), "")
    return found, full


def _is_provider(prefix: str) -> bool:
    listed = (*_COMPATIBLE, *_NAMES, *_CHAT, *CLOUDS)
    return prefix in listed or bool(find_vendor(prefix)) or prefix in _OTHERS


# Prefixes of LiteLLM without a counterpart here, so that they are not taken for the name of a model
_OTHERS = (
    *("replicate", "elevenlabs", "voyage", "jina_ai", "assemblyai", "deepgram", "stability", "recraft"),
    *("text-completion-openai", "github_copilot", "predibase", "petals", "triton", "xinference", "topaz"),
    *("infinity", "oobabooga", "snowflake", "nlp_cloud", "gradient_ai", "oci", "lambda_ai", "zhipu"),
)


def _server(prefix: str, model: str, api_base: str, params: SourceTable) -> Server:
    base_url = environment(api_base).rstrip("/")
    if prefix in CLOUDS:
        return read_cloud(prefix, model, base_url, params)
    table, base = _provider(prefix, api_base, base_url, params)
    return Server(table, base, model)


def _provider(prefix: str, api_base: str, base_url: str, params: SourceTable) -> tuple[dict[str, Any], str]:
    """The table of the provider so far, and the name that it is based on."""
    if prefix in _CHAT and base_url:
        return {"protocol": "openai-chat", "base_url": base_url}, prefix.replace("_", "-")
    vendor = _NAMES.get(prefix) or find_vendor(prefix)
    if vendor:
        if vendor == "ollama" and base_url and not base_url.endswith("/v1"):
            base_url += "/v1"
        return ({"base_url": _root(base_url, vendor)} if base_url else {}), vendor
    if prefix in _COMPATIBLE:
        url = base_url or _COMPATIBLE[prefix]
        return {"protocol": "openai-chat", "base_url": url}, prefix.replace("_", "-")
    if base_url:
        what = f"taken for a server of the Chat API at {api_base}"
        params.report("approximate", "model", what, "Correct its protocol if it speaks another one.")
        return {"protocol": "openai-chat", "base_url": base_url}, prefix.replace("_", "-") or "server"
    if not prefix:
        raise Unserved("no provider is named", "Write provider/model, or give its api_base.")
    raise Unserved(f"dragoman does not know the provider {prefix}", "Give it a [providers.NAME] by hand.")


def _root(base_url: str, vendor: str) -> str:
    """Without the version, where our protocol adds it."""
    if known()[vendor].protocol in ("anthropic", "gemini"):
        return re.sub(r"/v1(beta)?(/messages|/models)?$", "", base_url)
    return base_url


def _fill_credential(params: SourceTable, credentials: dict[str, SourceTable]) -> None:
    """What the named credential says counts where the deployment says nothing."""
    name = params.text("litellm_credential_name")
    if not name:
        return
    if name not in credentials:
        params.report("by hand", "litellm_credential_name", f"there is no credential {name!r}", "Add it.")
        return
    params.report("exact", "litellm_credential_name", "its values go to the provider")
    params.fill(credentials[name].look("credential_values"))


def _connection(params: SourceTable, table: dict[str, Any], key: str, base: str) -> None:
    """The key, the headers and the timeouts of the provider."""
    _key(params, table, environment(key), base)
    if headers := _headers(params):
        table["headers"] = headers
    if timeouts := _timeouts(params):
        table["timeouts"] = timeouts
    if (most := params.number("max_parallel_requests")) is not None:
        table["max_concurrency"] = round(most)


def _key(params: SourceTable, table: dict[str, Any], given: str, base: str) -> None:
    usual = known()[base].key_variables if base in known() else ()
    if given.startswith("env:") and given.removeprefix("env:") in usual:
        what = f"{base} reads {given.removeprefix('env:')} by itself, for all its models"
        params.findings.add_once("exact", params.place("api_key"), what)
    elif given:
        table["api_key"] = given
    elif "credentials" not in table and base not in known():
        variable = _KEYS.get(base.replace("-", "_"))
        table.update({"api_key": f"env:{variable}"} if variable else {})
    if given and not given.startswith("env:"):
        params.report("exact", "api_key", "the file contains a secret", "Use env:NAME instead.")


def _headers(params: SourceTable) -> dict[str, str]:
    headers: dict[str, str] = {}
    for kind in ("extra_headers", "headers", "default_headers"):
        for name, value in params.table(kind).items():
            headers[name.lower()] = environment(str(value))
    if organization := params.text("organization"):
        headers["openai-organization"] = environment(organization)
    return headers


def _timeouts(params: SourceTable) -> dict[str, float]:
    timeouts: dict[str, float] = {}
    if (seconds := params.number("timeout") or params.number("request_timeout")) is not None:
        timeouts["first_byte"] = seconds
        what = "it is the time until the first byte of the answer"
        params.report("approximate", "timeout", what, "server.request_timeout bounds whole requests.")
    if (seconds := params.number("stream_timeout")) is not None:
        timeouts["idle"] = seconds
        params.report("approximate", "stream_timeout", "it is the longest pause in a stream")
    return timeouts


def _join(providers: dict[str, dict[str, Any]], base: str, table: dict[str, Any]) -> str:
    """The name of the provider with this table; a new one where no equal one has joined yet."""
    base = re.sub(r"[^a-z0-9-]+", "-", base.lower()).strip("-") or "server"
    if not table and base in known():
        return base
    if not (base in known() and "protocol" in table) and providers.setdefault(base, table) == table:
        return base
    table, number = {**_address(base, table), **table}, 2
    while providers.setdefault(f"{base}-{number}", table) != table:
        number += 1
    return f"{base}-{number}"


def _address(base: str, table: dict[str, Any]) -> dict[str, Any]:
    """What the name of a known provider says by itself, for one with another name."""
    if base not in known() or "protocol" in table:
        return {}
    settings = known()[base]
    if settings.surfaces and "base_url" not in table:
        return {"surfaces": [_without_default(to_builtins(each)) for each in settings.surfaces]}
    return {"protocol": settings.protocol, "base_url": settings.base_url}


def _without_default(surface: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in surface.items() if value}


def _default(params: SourceTable) -> dict[str, Any]:
    """Settings of the deployment, in neutral names."""
    default: dict[str, Any] = {}
    for name, neutral in _DEFAULTS.items():
        if (value := params.number(name)) is not None:
            default[neutral] = int(value) if neutral in _WHOLE or value == int(value) else value
    default |= _reasoning(params)
    stop = params.take("stop")
    if isinstance(stop, str) or is_array(stop):
        default["stop"] = [stop] if isinstance(stop, str) else [str(each) for each in stop]
    for name in ("service_tier", "verbosity"):
        if value := params.text(name):
            default[name] = value
    if user := params.text("user"):
        default["user"] = environment(user)
    if isinstance(parallel := params.take("parallel_tool_calls"), bool):
        default["parallel"] = parallel
    return default


def _reasoning(params: SourceTable) -> dict[str, Any]:
    """Effort and budget, which LiteLLM takes in the words of OpenAI and of Anthropic."""
    read: dict[str, Any] = {}
    if effort := params.take("reasoning_effort"):
        wanted = effort.get("effort") if is_object(effort) else effort
        if wanted in _EFFORTS:
            read["effort"] = wanted
        else:
            params.report("by hand", "reasoning_effort", f"{wanted!r} is no effort", f"One of {_EFFORTS}.")
    thinking = params.take("thinking")
    if is_object(thinking) and thinking.get("type") == "disabled":
        read["budget"] = 0
    elif is_object(thinking) and isinstance(thinking.get("budget_tokens"), int):
        read["budget"] = thinking["budget_tokens"]
    elif thinking is not None:
        params.report("by hand", "thinking", "no budget of tokens", "Set effort or budget under default.")
    return read


def _extra(params: SourceTable) -> dict[str, Any]:
    extra: dict[str, Any] = {name: _without_null(each) for name, each in params.table("extra_body").items()}
    for name in ("chat_template_kwargs", "provider", "min_p", "repetition_penalty", "num_ctx", "keep_alive"):
        if (value := params.take(name)) is not None:
            extra[name] = _without_null(value)
    return extra


def _without_null(value: Any) -> Any:
    """TOML has no null."""
    if is_object(value):
        return {str(key): _without_null(each) for key, each in value.items() if each is not None}
    return [_without_null(each) for each in value if each is not None] if is_array(value) else value


def _report_limits(params: SourceTable, shares: dict[str, float]) -> None:
    for kind in ("rpm", "tpm"):
        if shares[kind]:
            what = "it decides the share among deployments of one name; the upstream's own limit counts"
            params.report("approximate", kind, what, "Set max_concurrency of the provider for a hard limit.")
    if shares["order"]:
        what = "targets of the lowest order share the requests, the others follow in their order"
        params.findings.add_once("exact", params.place("order"), what)
    for name in ("drop_params", "allowed_openai_params"):
        if params.take(name) is not None:
            params.report("exact", name, "what a model does not take is dropped and reported anyway")
    if dropped := params.take("additional_drop_params"):
        advice = "Name them in `refused` of the row, where they are among its names."
        params.report("by hand", "additional_drop_params", f"{dropped} are not withheld", advice)
    for name in ("num_retries", "max_retries"):
        if params.take(name) is not None:
            params.report("approximate", name, "each target gets up to 3 tries")
    if params.take("cooldown_time") is not None:
        params.report("approximate", "cooldown_time", "it is paused for as long as its answer says")
    if params.take("api_version") is not None:
        params.report("approximate", "api_version", "it is not sent")
    for name in _NOTES:
        if params.take(name) is not None:
            params.report("unsupported", name, "dragoman has no such setting", "Leave it out.")


def _facts(params: SourceTable, info: SourceTable) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if model := info.text("base_model"):
        facts["like"] = model.rpartition("/")[2]
    for name, fact in (("max_input_tokens", "context_window"), ("max_output_tokens", "max_output")):
        if (value := info.number(name)) is not None:
            facts[fact] = int(value)
    for name, fact in (("supports_vision", "images"), ("supports_function_calling", "tools")):
        if isinstance(value := info.take(name), bool):
            facts[fact] = value
    if price := _price(params, info):
        facts["price"] = price
    mode = info.text("mode")
    if mode and mode not in ("chat", "responses"):
        what = f"requests of {mode} pass unchanged to a provider of the same protocol"
        info.report("approximate", "mode", what)
    elif mode:
        info.report("exact", "mode", "the route of a request says it")
    for name in info.names():
        info.take(name)
        info.report("exact", name, "it is for information only, and not needed")
    return facts


def _price(params: SourceTable, info: SourceTable) -> dict[str, float]:
    """Per million tokens, where LiteLLM counts single ones."""
    read: dict[str, float] = {}
    for theirs, ours in (
        ("input_cost_per_token", "input"),
        ("output_cost_per_token", "output"),
        ("cache_read_input_token_cost", "cached_input"),
        ("cache_creation_input_token_cost", "cache_write"),
    ):
        in_params, in_info = params.number(theirs), info.number(theirs)
        value = in_info if in_params is None else in_params
        if value is not None:
            read[ours] = round(value * 1_000_000, 6)
    if read and not {"input", "output"} <= read.keys():
        params.report("by hand", "input_cost_per_token", "a price needs input and output", "Add both.")
        return {}
    return read
