"""llm-comply's tests of the client protocols, through the gateway over an upstream of every protocol."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from bench.score import FORMATS as SCORED
from bench.score import IGNORED

from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, Stand, configuration, demo, gateway

llm_comply = pytest.importorskip("llm_comply", reason="make test-compliance installs it")

from llm_comply.config import ComplianceConfig  # noqa: E402 - it may not be installed
from llm_comply.result import TestStatus as Status  # noqa: E402 - it may not be installed
from llm_comply.runner import TestRunner as Runner  # noqa: E402 - it may not be installed
from llm_comply.schema import SpecLoader  # noqa: E402 - it may not be installed
from llm_comply.tests import get_tests  # noqa: E402 - it may not be installed

SPECS = Path(llm_comply.__file__).parent / "specs"
FORMATS = {**SCORED, "google-interactions": ("", "", "x-goog-api-key", {})}
# Tests of reasoning are skipped for models with other names
NAMES = {"openai-chat": "gpt-5", "anthropic": "claude-sonnet-4-5"}
CASES = [(name, case.id) for name in FORMATS for case in get_tests(name)]


@cache
def schemas(name: str) -> SpecLoader:
    file = FORMATS[name][0]
    return SpecLoader(str(SPECS / file) if file else None)


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    rows = [f'"{NAMES[name]}-{up}" = "{up}:{MODELS[up]}"\n' for name in NAMES for up in UPSTREAMS]
    with demo() as (_, url):
        text = configuration(url, f'"{CLIENT_KEY}"') + "[models]\n" + "".join(rows)
        with gateway(text) as running:
            yield running


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("name, case", CASES, ids=[f"{name}-{case}" for name, case in CASES])
def test_a_case(stand: Stand, name: str, case: str, upstream: str) -> None:
    _, path, header, more = FORMATS[name]
    config = ComplianceConfig(
        base_url=stand.url + path,
        api_key=CLIENT_KEY,
        model=f"{NAMES.get(name, NAMES['openai-chat'])}-{upstream}",
        auth_header=header,
        use_bearer_prefix=header == "Authorization",
        extra_headers=more,
        filter_ids=[case],
        ignore_errors=IGNORED,
        timeout=20.0,
    )
    (result,) = Runner(config, get_tests(name), schemas(name)).run_all().results
    assert result.status is Status.PASSED, result.errors
