"""What `make score` asks of every gateway: dragoman passes all, a gateway that answers nothing passes one."""

from __future__ import annotations

from compliance.open_responses import TESTS, Suite
from gateway.running import running
from gateway.stands import CLIENT_KEY, MODELS, configuration, demo, gateway


async def nothing(scope: object, receive: object, send: object) -> None:
    """It takes connections, and answers none."""


def test_dragoman_passes_every_one() -> None:
    with demo() as (_, upstream), gateway(configuration(upstream, f'"{CLIENT_KEY}"')) as stand:
        passed = Suite(stand.url, CLIENT_KEY, f"openai-chat:{MODELS['openai-chat']}", {}).run()
    assert len(TESTS) == 17
    assert [name for name, is_passed in passed.items() if not is_passed] == []


def test_a_gateway_that_answers_nothing_passes_what_asks_nothing() -> None:
    with running(nothing) as url:
        passed = Suite(url, "k", "m", {}).run()
    assert [name for name, is_passed in passed.items() if is_passed] == ["response-output-phase-schema"]
