"""LiteLLM's proxy configuration (`config.yaml`) as ours.

Settings of a deployment (`litellm_params`) count where the client says nothing: the router puts the request
over them. So they become `default`. Deployments of one name share the requests: weighted targets of one row.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field

from dragoman.core.errors import ConfigError
from dragoman.core.jsontext import is_array, is_object
from dragoman.gateway.config.importers.findings import Finding, Findings, Grade, SourceTable
from dragoman.gateway.config.importers.litellm_clouds import Unserved, environment
from dragoman.gateway.config.importers.litellm_providers import Deployment, read_deployment
from dragoman.gateway.config.importers.toml_text import write_toml


class Imported(Struct, frozen=True):
    """`text` is the dragoman.toml; `variables` are the environment variables that it names."""

    text: str
    findings: tuple[Finding, ...]
    variables: tuple[str, ...]

    @property
    def stand_ins(self) -> dict[str, str]:
        """A value for each variable, with which the text can be checked without the real ones."""
        database = _VARIABLE.findall(self.text.partition("[store]")[2].partition("[providers")[0])
        values = dict.fromkeys((*self.variables, *_SIGNING), "http://stand-in.invalid")
        return values | dict.fromkeys(database[:1], "postgresql://stand-in.invalid/db")


class _Draft(Struct):
    """The configuration as it grows. `rows`: by name the targets that share its requests, in order."""

    findings: Findings
    server: dict[str, Any] = field(default_factory=dict[str, Any])
    limits: dict[str, Any] = field(default_factory=dict[str, Any])
    store: dict[str, Any] = field(default_factory=dict[str, Any])
    providers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    facts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    fallbacks: list[tuple[str, list[str], str]] = field(default_factory=list[tuple[str, list[str], str]])
    aliases: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def import_litellm(text: str, name: str = "config.yaml") -> Imported:
    """Raises ConfigError where `text` is no YAML table."""
    findings = Findings()
    source = SourceTable(_parse(text, name), "", findings)
    draft = _Draft(findings)
    credentials = _read_credentials(source)
    _read_general(source.table("general_settings"), draft)
    _read_settings(source.table("litellm_settings"), draft)
    _read_router(source.table("router_settings"), draft)
    _read_models(source.tables("model_list"), credentials, draft)
    for alias, (model, where) in draft.aliases.items():
        if _is_known(model, where, draft):
            draft.rows[alias] = draft.rows[model]
    _add_fallbacks(draft)
    variables = source.table("environment_variables")
    for variable, _ in variables.items():
        advice = f"Set {variable} where you start dragoman."
        variables.report("by hand", variable, "variables are not in the file", advice)
    for name, _ in source.items():
        source.report("unsupported", name, "dragoman has no such section", _SECTIONS.get(name, ""))
    written = write_toml(_sections(draft))
    return Imported(written, tuple(findings.items), tuple(dict.fromkeys(_VARIABLE.findall(written))))


_SIGNING = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")  # where the file leaves them to AWS's own tools
_VARIABLE = re.compile(r'"env:([A-Za-z_][A-Za-z0-9_]*)')
_SECTIONS = {
    "guardrails": "Run guardrails before the gateway.",
    "mcp_servers": "Clients name MCP servers in their requests.",
    "include": "Put the included files into one, then import that.",
    "prompts": "Keep prompts with the client.",
}


def _read_credentials(source: SourceTable) -> dict[str, SourceTable]:
    credentials: dict[str, SourceTable] = {}
    for each in source.tables("credential_list"):
        credentials[each.text("credential_name")] = each
        what = "its values go to the providers of the models that name it"
        each.report("exact", "credential_name", what)
        each.take("credential_info")
        each.report("exact", "credential_info", "it is for information only")
    return credentials


def _parse(text: str, name: str) -> dict[str, Any]:
    import yaml  # of the extra `import`

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, RecursionError) as error:  # dates that are none, deep brackets
        raise ConfigError(f"{name}: {error}") from None
    if not is_object(value):
        raise ConfigError(f"{name}: expected a table with model_list")
    return value


# The file's parts -------------------------------------------------------------------------------------------


def _read_general(general: SourceTable, draft: _Draft) -> None:
    if key := general.text("master_key"):
        draft.server["keys"] = [environment(key)]
        if not key.startswith("os.environ/"):
            general.report("exact", "master_key", "the file contains a secret", "Use env:NAME instead.")
    if url := general.text("database_url"):
        if environment(url).startswith(("env:", "postgres")):
            draft.store["url"] = environment(url)
        advice = "Give each caller a [keys.NAME] with its key and limits."
        general.report("by hand", "database_url", "keys, teams and budgets in its tables stay there", advice)
    if (size := general.number("max_request_size_mb")) is not None:
        draft.server["max_body_mb"] = max(round(size), 1)
    if (most := general.number("global_max_parallel_requests")) is not None:
        draft.limits["in_flight"] = round(most)
    if (most := general.number("max_parallel_requests")) is not None:
        draft.limits["concurrency"] = round(most)
    _report_known(general, _GENERAL)


_GENERAL: dict[str, tuple[Grade, str, str]] = {
    "store_model_in_db": ("by hand", "models can be in the file only", "Put them under [models]."),
    "custom_auth": ("by hand", "dragoman authenticates by its own keys", "Give callers [keys.NAME]."),
    "alerting": ("unsupported", "no alerts are sent", "Alert on the metrics at /metrics."),
    "json_logs": ("exact", "the log is JSON, one line for each exchange", ""),
    "allowed_routes": ("unsupported", "all routes are served", "Filter them in the proxy before it."),
    "background_health_checks": ("approximate", "circuit breakers watch the requests themselves", ""),
    "health_check_interval": ("approximate", "circuit breakers watch the requests themselves", ""),
    "pass_through_endpoints": ("unsupported", "only the routes of the protocols are served", ""),
    "salt_key": ("unsupported", "no secrets are stored", ""),
    "disable_spend_logs": ("exact", "no spend log is kept", ""),
    "user_header_name": ("unsupported", "callers are known by their key", ""),
}


def _read_settings(settings: SourceTable, draft: _Draft) -> None:
    if (seconds := settings.number("request_timeout")) is not None:
        draft.server["request_timeout"] = seconds
    _read_fallbacks(settings, draft)
    aliases = settings.table("model_alias_map")
    for name, model in aliases.items():
        draft.aliases[name] = str(model), aliases.place(name)
    for kind in ("callbacks", "success_callback", "failure_callback", "service_callback"):
        given = settings.take(kind)
        for callback in given if is_array(given) else [] if given is None else [given]:
            unknown = f"nothing is sent to {callback}", _CALLBACK_ADVICE
            grade, what, advice = _CALLBACKS.get(str(callback), ("unsupported", *unknown))
            settings.report(grade, kind, what, advice)
    if (dropped := settings.take("drop_params")) is not None:
        advice = "" if dropped else "Read x-dragoman-losses where a lost setting matters."
        what = "what a model does not take is dropped and reported"
        settings.report("exact" if dropped else "approximate", "drop_params", what, advice)
    _report_known(settings, _SETTINGS)


_CALLBACK_ADVICE = "Traces by OpenTelemetry and metrics at /metrics say the same."
_CALLBACKS: dict[str, tuple[Grade, str, str]] = {
    "prometheus": ("exact", "metrics are at /metrics", ""),
    "otel": ("by hand", "traces are sent where OTEL_* variables say so", "Set OTEL_EXPORTER_OTLP_ENDPOINT."),
    "arize": ("by hand", "traces are sent by OpenTelemetry", "Set OTEL_EXPORTER_OTLP_ENDPOINT."),
    "langfuse_otel": ("by hand", "traces are sent by OpenTelemetry", "Set OTEL_EXPORTER_OTLP_ENDPOINT."),
}
_RETRIES: tuple[Grade, str, str] = ("approximate", "each target gets up to 3 tries", "")
_SETTINGS: dict[str, tuple[Grade, str, str]] = {
    "modify_params": ("exact", "requests are always made valid, and changes are reported", ""),
    "set_verbose": ("approximate", "use `dragoman serve --verbose`", ""),
    "json_logs": ("exact", "the log is JSON, one line for each exchange", ""),
    "num_retries": _RETRIES,
    "telemetry": ("exact", "dragoman sends none", ""),
    "turn_off_message_logging": ("exact", "the log holds no contents", ""),
    "redact_user_api_key_info": ("exact", "keys are logged by name only", ""),
    "cache": ("unsupported", "replies are not cached", "The providers' prompt caches work unchanged."),
    "cache_params": ("unsupported", "replies are not cached", ""),
    "max_budget": ("by hand", "budgets belong to keys", "Set usd_per_month in [keys.NAME]."),
    "budget_duration": ("by hand", "budgets belong to keys", "Set usd_per_day or usd_per_month."),
    "default_internal_user_params": ("by hand", "callers are keys", "Give each one a [keys.NAME]."),
    "default_team_settings": ("by hand", "callers are keys", "Give each one a [keys.NAME]."),
    "forward_traceparent_to_llm_provider": ("exact", "trace headers are sent with the request", ""),
}


def _read_router(router: SourceTable, draft: _Draft) -> None:
    _read_fallbacks(router, draft)
    aliases = router.table("model_group_alias")
    for name, target in aliases.items():
        model = target.get("model") if is_object(target) else target
        draft.aliases[name] = str(model), aliases.place(name)
        if is_object(target) and target.get("hidden"):
            what = "lists of models show it like the others"
            router.findings.add("approximate", f"{aliases.place(name)}.hidden", what)
    if (seconds := router.number("timeout")) is not None:
        what = "it is the time of the whole request, with its retries"
        if draft.server.setdefault("request_timeout", seconds) != seconds:
            what = "request_timeout of litellm_settings is the time of the whole request"
        router.report("approximate", "timeout", what)
    _report_known(router, _ROUTER)


_SHARED: tuple[Grade, str, str] = (
    "exact",
    "replicas share their state by the store",
    "Set [store] url to one PostgreSQL.",
)
_COOLS: tuple[Grade, str, str] = (
    "approximate",
    "a key or server that fails is paused for as long as its answer says",
    "",
)
_ROUTER: dict[str, tuple[Grade, str, str]] = {
    "routing_strategy": ("approximate", "targets take turns by weight, and a session stays with its own", ""),
    "routing_strategy_args": ("approximate", "targets take turns by weight", ""),
    "num_retries": _RETRIES,
    "max_retries": _RETRIES,
    "retry_after": ("approximate", "waits grow from 0.25 s, or are as long as the answer says", ""),
    "retry_policy": _RETRIES,
    "allowed_fails": _COOLS,
    "cooldown_time": _COOLS,
    "disable_cooldowns": _COOLS,
    "enable_pre_call_checks": ("approximate", "a request that is too long goes to the next target", ""),
    "stream_timeout": ("by hand", "streams have timeouts by provider", "Set timeouts.idle of the provider."),
    "cache_responses": ("unsupported", "replies are not cached", ""),
    "redis_host": _SHARED,
    "redis_port": _SHARED,
    "redis_password": _SHARED,
    "redis_url": _SHARED,
    "optional_pre_call_checks": ("exact", "sessions always stay with their account", ""),
}


def _report_known(source: SourceTable, table: dict[str, tuple[Grade, str, str]]) -> None:
    """What is known about the fields that are left, and that dragoman has none like the others."""
    for name, value in source.items():
        shown = value if isinstance(value, str | int | float) else type(value).__name__
        unknown = f"dragoman has no such setting ({shown})", "Leave it out, or say what you need it for."
        grade, what, advice = table.get(name, ("unsupported", *unknown))
        source.report(grade, name, what, advice)


def _read_fallbacks(source: SourceTable, draft: _Draft) -> None:
    for kind in ("fallbacks", "context_window_fallbacks", "default_fallbacks", "content_policy_fallbacks"):
        given = source.take(kind)
        if given is None:
            continue
        where = source.place(kind)
        if kind == "content_policy_fallbacks":
            source.findings.add("unsupported", where, "a refusal is an answer, and no other model is asked")
            continue
        if kind == "context_window_fallbacks":
            what = "they follow the other targets, for every failure that another model may not have"
            source.findings.add("approximate", where, what)
        for each in given if is_array(given) else [given]:
            if is_object(each):
                for name, models in each.items():
                    draft.fallbacks.append((str(name), _names(models), where))
            elif kind == "default_fallbacks":
                draft.fallbacks.append(("", _names(each), where))
            else:
                source.findings.add("by hand", where, f"{each!r} is no fallback", "Correct the source.")


def _names(models: Any) -> list[str]:
    listed = models if is_array(models) else [models]
    return [str(each.get("model", "")) if is_object(each) else str(each) for each in listed]


# Models -----------------------------------------------------------------------------------------------------


def _read_models(entries: list[SourceTable], credentials: dict[str, SourceTable], draft: _Draft) -> None:
    if not entries:
        draft.findings.add("by hand", "model_list", "there are no models", "Add them under [models].")
    groups: dict[str, list[Deployment]] = {}
    for entry in entries:
        name = entry.text("model_name")
        if name == "*" and entry.is_wild("litellm_params"):
            what = "provider/model works for every provider that has a key, without a row"
            entry.report("exact", "model_name", what)
            continue
        try:
            deployment = read_deployment(name, entry, credentials, draft.providers)
        except Unserved as problem:
            draft.findings.add("unsupported", entry.path, str(problem), problem.advice)
            deployment = None
        entry.report_rest("it is for information only")
        if deployment is None:
            continue
        if not name:
            entry.report("by hand", "model_name", "missing", "Name the model under [models].")
        else:
            groups.setdefault(name, []).append(deployment)
    for name, deployments in groups.items():
        draft.rows[name] = _targets(deployments)
        facts = [each.facts for each in deployments if each.facts]
        if facts:
            draft.facts[name] = facts[0]
            if any(other != facts[0] for other in facts):
                what = f"the deployments of {name} differ in their model_info: the first one counts"
                draft.findings.add("approximate", "model_list", what)


def _targets(deployments: list[Deployment]) -> list[dict[str, Any]]:
    """Those with the lowest `order` share the requests, the others follow."""
    first = min(each.order for each in deployments)
    sharing = [each for each in deployments if each.order == first]
    later = sorted((each for each in deployments if each.order != first), key=lambda each: each.order)
    weights = _weights(sharing)
    targets = [_target(each, weight) for each, weight in zip(sharing, weights, strict=True)]
    return targets + [_target(each, 0) for each in later]


def _weights(sharing: list[Deployment]) -> list[int]:
    """By `weight`, else by `rpm`, else by `tpm`, as the simple shuffle of the router counts; else alike."""
    if len(sharing) == 1:
        return [0]
    for kind in ("weight", "rpm", "tpm"):
        given = [getattr(each, kind) for each in sharing]
        if any(given):
            scale = 100 if any(value != int(value) for value in given) else 1
            return [max(round(value * scale), 1) for value in given]
    return [1 for _ in sharing]


def _target(deployment: Deployment, weight: int) -> dict[str, Any]:
    target: dict[str, Any] = {"to": f"{deployment.provider}:{deployment.model.replace('*', '$1')}"}
    if weight:
        target["weight"] = weight
    if deployment.default:
        target["default"] = deployment.default
    if deployment.extra:
        target["extra"] = deployment.extra
    return target


def _add_fallbacks(draft: _Draft) -> None:
    """Fallbacks of one name follow its targets; those of all names (`default_fallbacks`) come last."""
    rows = {name: list(targets) for name, targets in draft.rows.items()}
    for name, models, where in sorted(draft.fallbacks, key=lambda each: not each[0]):
        is_for_all = not name or (name == "*" and name not in rows)
        if not is_for_all and not _is_known(name, where, draft):
            continue
        for model in models:
            for followed in (list(rows) if is_for_all else [name]) if _is_known(model, where, draft) else ():
                more = [_plain(target) for target in draft.rows[model]]
                here = [_plain(target) for target in rows[followed]]
                rows[followed] += [target for target in more if target not in here]
    draft.rows = rows


def _is_known(model: str, where: str, draft: _Draft) -> bool:
    if model not in draft.rows:
        problem = f"the model {model!r} is not among those that were carried over"
        draft.findings.add("by hand", where, problem, "Name one of [models].")
    return model in draft.rows


def _plain(target: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in target.items() if name != "weight"}


def _sections(draft: _Draft) -> dict[str, Any]:
    models = {name: _row(targets, draft.facts.get(name, {})) for name, targets in draft.rows.items()}
    return {
        "server": draft.server,
        "limits": draft.limits,
        "store": draft.store,
        "providers": draft.providers,
        "models": models,
    }


def _row(targets: list[dict[str, Any]], facts: dict[str, Any]) -> Any:
    """As short as it can be said."""
    only = targets[0] if len(targets) == 1 else None
    if only:
        return {**only, **facts} if facts or len(only) > 1 else only["to"]
    listed = [target["to"] if len(target) == 1 else target for target in targets]
    return {"to": listed, **facts} if facts else listed
