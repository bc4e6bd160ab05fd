"""What tests of several commands share."""

from pathlib import Path

import pytest

from dragoman.profiles import known


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, and no key of any provider."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("DRAGOMAN_MODEL", raising=False)
    for provider in known().values():
        for variable in provider.key_variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path
