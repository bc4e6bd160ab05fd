"""Deployments of LiteLLM at Azure, Bedrock and Vertex AI: our provider, its credentials and its model.

Each reader takes the parameters of its cloud. Without a region, a project or a key in the file, LiteLLM reads
variables with names of its own: the result names those.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.gateway.config.importers.findings import SourceTable


class Unserved(Exception):
    """A deployment that has no counterpart here."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem)
        self.advice = advice


class Server(Struct, frozen=True):
    """The table of a provider so far, the name that it is based on, and the model as it is called there."""

    table: dict[str, Any]
    base: str
    model: str


def environment(value: str) -> str:
    """`os.environ/NAME` is `env:NAME` here; so is what people write for it by habit."""
    found = re.fullmatch(r"os\.environ/(\w+)|\$\{(\w+)\}|env\([\"']?(\w+)[\"']?\)", value)
    return f"env:{found[1] or found[2] or found[3]}" if found else value


def read_cloud(prefix: str, model: str, base_url: str, params: SourceTable) -> Server:
    """Raises Unserved."""
    read = _READERS.get(prefix)
    if read:
        return read(model, base_url, params)
    if prefix == "cloudflare" and base_url:
        return Server({"protocol": "openai-chat", "base_url": base_url}, "cloudflare", model)
    raise Unserved(
        f"dragoman has no upstream for {CLOUDS[prefix]}",
        "Keep a server of the Chat API before it, or route the name to another provider.",
    )


# Azure ------------------------------------------------------------------------------------------------------


def _azure(model: str, base_url: str, params: SourceTable) -> Server:
    """The deployment at the v1 API, which takes no api-version."""
    url = re.sub(r"/openai(/.*)?$", "", base_url or "env:AZURE_API_BASE")
    table: dict[str, Any] = {"protocol": "azure-openai", "base_url": f"{url}/openai/v1"}
    if params.take("api_version") is not None:
        what = "requests go to Azure's v1 API, which needs no api_version"
        params.report("approximate", "api_version", what, "The deployment must be served there.")
    if entra := _entra(params):
        table["credentials"] = entra
    return Server(table, "azure", re.sub(r"^(o_series|gpt5_series)/", "", model))


def _entra(params: SourceTable) -> dict[str, str]:
    token = params.text("azure_ad_token")
    named = {"tenant": "tenant_id", "id": "client_id", "secret": "client_secret"}
    given = {ours: environment(text) for ours, theirs in named.items() if (text := params.text(theirs))}
    for name in ("azure_scope", "azure_username", "azure_password", "azure_ad_token_provider"):
        if params.take(name) is not None:
            params.report("unsupported", name, "an application of Entra signs in", "Give it id and secret.")
    if token and not given:
        return {"token": environment(token)}
    return given


def _azure_ai(model: str, base_url: str, params: SourceTable) -> Server:
    """Foundry serves Claude by Anthropic's protocol, and the others at the v1 API of Azure OpenAI."""
    url = base_url or "env:AZURE_AI_API_BASE"
    params.take("api_version")
    if "claude" in model:
        root = re.sub(r"/anthropic(/.*)?$", "", url)
        return Server({"protocol": "anthropic", "base_url": f"{root}/anthropic"}, "azure-ai", model)
    if ".models.ai.azure.com" in url:  # one server for one model
        return Server(
            {"protocol": "openai-chat", "base_url": f"{url.removesuffix('/v1')}/v1"}, "azure-ai", model
        )
    params.report(
        "approximate", "model", "sent to the v1 API of Foundry", "The model must be deployed there."
    )
    root = re.sub(r"/(models|openai)(/.*)?$", "", url)
    return Server({"protocol": "azure-openai", "base_url": f"{root}/openai/v1"}, "azure-ai", model)


# Bedrock ----------------------------------------------------------------------------------------------------

_REGION = r"[a-z]{2}(?:-[a-z]+)+-\d"
_ROUTES = r"(?:(?:converse|converse_like|invoke|llama|deepseek_r1|qwen3|qwen2|openai)/)"
_AWS = {"id": "aws_access_key_id", "secret": "aws_secret_access_key", "session": "aws_session_token"}
_AWS_ELSEWHERE = {
    "aws_profile_name": "Set AWS_PROFILE where you start dragoman, and install the extra aws.",
    "aws_role_name": "Give the machine that role, or set its keys; and install the extra aws.",
    "aws_session_name": "It belongs to a role.",
    "aws_web_identity_token": "Set AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, and install the extra aws.",
    "aws_sts_endpoint": "It belongs to a role.",
    "aws_external_id": "It belongs to a role.",
}


def _bedrock(model: str, base_url: str, params: SourceTable) -> Server:
    """Claude by InvokeModel, where its own protocol arrives unchanged; the others by Converse."""
    found = re.fullmatch(rf"{_ROUTES}?(?:({_REGION})/)?{_ROUTES}?(.+)", model)
    in_model, name = found.groups() if found else (None, model)
    arn = re.match(rf"arn:[a-z-]+:bedrock:({_REGION}):", name)
    in_arn = arn[1] if arn else None
    region = environment(params.text("aws_region_name")) or in_model or in_arn
    is_claude = "claude" in name or bool(arn and model.startswith("invoke/"))
    if re.search("embed|rerank|stability", name):
        raise Unserved(f"{name} does not chat, and Bedrock's other APIs are not served", "Call it directly.")
    protocol = "bedrock-invoke" if is_claude else "bedrock-converse"
    table: dict[str, Any] = {"protocol": protocol, "region": region or "env:AWS_REGION_NAME"}
    endpoint = environment(params.text("aws_bedrock_runtime_endpoint")) or base_url
    if endpoint:
        table["base_url"] = endpoint
    given = {ours: environment(text) for ours, theirs in _AWS.items() if (text := params.text(theirs))}
    if given:
        table["credentials"] = given
    _report_elsewhere(params)
    base = "bedrock" if is_claude else "bedrock-converse"
    return Server(table, base, name)


def _report_elsewhere(params: SourceTable) -> None:
    for theirs, advice in _AWS_ELSEWHERE.items():
        if params.take(theirs) is not None:
            params.report("by hand", theirs, "AWS's own settings say who signs the requests", advice)


# Vertex AI --------------------------------------------------------------------------------------------------


def _vertex(model: str, base_url: str, params: SourceTable) -> Server:
    given = {kind: _first(params, f"vertex_{kind}", f"vertex_ai_{kind}") for kind in ("project", "location")}
    protocol = "vertex-claude" if "claude" in model else "vertex-gemini"
    if "/" in model or not re.match(r"claude|gemini|gemma|\*", model):
        raise Unserved(f"{model} at Vertex AI is neither Gemini nor Claude", "Route it to another provider.")
    table: dict[str, Any] = {
        "protocol": protocol,
        "project": given["project"] or "env:VERTEXAI_PROJECT",
        "location": given["location"] or "us-central1",  # LiteLLM's own default
    }
    if base_url:
        table["base_url"] = base_url
    if file := _account_file(params):
        table["credentials"] = {"file": file}
    return Server(table, "vertex-claude" if protocol == "vertex-claude" else "vertex", model)


def _account_file(params: SourceTable) -> str:
    """The file of the service account, where the configuration names one."""
    credentials = params.take("vertex_credentials") or params.take("vertex_ai_credentials")
    file = environment(credentials) if isinstance(credentials, str) else ""
    if credentials is not None and (not file or file.lstrip().startswith("{")):
        advice = "Save it in a file and name that: credentials = { file = … }."
        params.report("by hand", "vertex_credentials", "the file contains a service account", advice)
        return ""
    if file.startswith("env:"):
        params.report("approximate", "vertex_credentials", "the variable must hold the path of a file")
    return file


def _first(params: SourceTable, *names: str) -> str:
    given = [environment(params.text(name)) for name in names]
    return next(filter(None, given), "")


CLOUDS = {
    "azure": "Azure OpenAI",
    "azure_ai": "Azure AI",
    "bedrock": "Bedrock",
    "bedrock_converse": "Bedrock",
    "sagemaker": "SageMaker",
    "sagemaker_chat": "SageMaker",
    "vertex_ai": "Vertex AI",
    "vertex_ai_beta": "Vertex AI",
    "databricks": "Databricks",
    "watsonx": "watsonx",
    "cloudflare": "Cloudflare Workers AI",
}
_READERS: dict[str, Callable[[str, str, SourceTable], Server]] = {
    "azure": _azure,
    "azure_ai": _azure_ai,
    "bedrock": _bedrock,
    "bedrock_converse": _bedrock,
    "vertex_ai": _vertex,
    "vertex_ai_beta": _vertex,
}
