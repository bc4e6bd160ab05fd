"""The stand that most tests share: a demo upstream, and a gateway with a provider for each protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.patient import TIME_LIMITS
from dragoman.demo import DemoApp
from gateway.stands import CLIENT_KEY, Stand, configuration, demo, gateway
from waiting import LONG


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """A store that is late is done without. Here only the machine is late."""
    with pytest.MonkeyPatch.context() as patch:
        for place in TIME_LIMITS:
            patch.setattr(place, LONG)
        yield


@pytest.fixture(scope="session")
def behind() -> Iterator[tuple[DemoApp, str]]:
    with demo() as running:
        yield running


@pytest.fixture(scope="session")
def shared(behind: tuple[DemoApp, str]) -> Iterator[Stand]:
    with gateway(configuration(behind[1], f'"{CLIENT_KEY}"')) as stand:
        yield stand


@pytest.fixture(scope="session")
def embedded() -> Iterator[Stand]:
    """A gateway that nobody configured."""
    with gateway("") as stand:
        yield stand


@pytest.fixture
def stand(shared: Stand) -> Stand:
    """The shared one, with nothing under way and an empty log."""
    shared.begin()
    return shared
