"""Settings for all tests, and the database that some of them share.

Laws run the same examples every time; `HYPOTHESIS_PROFILE=deep` looks for new ones.
"""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from gateway.conversations.servers import NoServer, shared

SLOW_MACHINE = (HealthCheck.too_slow,)

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, suppress_health_check=SLOW_MACHINE
)
settings.register_profile("deep", deadline=None, max_examples=2000, suppress_health_check=SLOW_MACHINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """A shell ignores SIGINT for what it starts in the background, and what the tests start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither the user's configuration nor the user's store: programs that tests start inherit these."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        yield


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a running PostgreSQL, up to the name of a database."""
    base, is_worker = tmp_path_factory.getbasetemp(), "PYTEST_XDIST_WORKER" in os.environ
    try:
        return shared(
            base.parent / "postgres" if is_worker else base / "postgres",
            os.getppid() if is_worker else os.getpid(),
        )
    except NoServer as error:
        pytest.skip(f"no PostgreSQL here: {error}")
