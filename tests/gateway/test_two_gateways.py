"""Two gateways in a row, over HTTP: what the upstream behind the far one signed comes back through both.

The official SDK of each protocol talks to the near gateway, every protocol is spoken between the two, and the
scripted model behind the far one refuses a conversation whose signatures are missing, changed or of another.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.sdks import SDKS, sdk_of
from gateway.stands import MODELS, PROTOCOLS, Stand, configuration, demo, gateway
from gateway.test_sdk_cycles import hold_conversation


@pytest.fixture(scope="module")
def near() -> Iterator[Stand]:
    with demo() as (_, url), gateway(configuration(url)) as far, gateway(configuration(far.url)) as stand:
        yield stand


@pytest.mark.parametrize("upstream", PROTOCOLS)
@pytest.mark.parametrize("between", PROTOCOLS)
@pytest.mark.parametrize("client", SDKS)
def test_a_conversation(near: Stand, client: str, between: str, upstream: str) -> None:
    hold_conversation(sdk_of(client, near.url), "streamed", f"{between}:{upstream}:{MODELS[upstream]}")
