"""Which configuration file is in force, and `dragoman trust`."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dragoman.cli import main
from dragoman.core.errors import ConfigError
from dragoman.gateway.config import load_file
from dragoman.gateway.config.files import trust
from dragoman.user_folders import config_folder

LOCAL = "[server]\nport = 5\n"
OWN = "[server]\nport = 6\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A working directory, and the environment of a user with a configuration folder."""
    (tmp_path / "work").mkdir()
    (tmp_path / "config" / "dragoman").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    for name in ("DRAGOMAN_CONFIG", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "config"))
    environ = {name: str(tmp_path / "config") for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME")}
    folder = config_folder(environ)
    assert folder
    folder.mkdir(parents=True, exist_ok=True)
    return environ


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def own_file(environ: dict[str, str]) -> Path:
    folder = config_folder(environ)
    assert folder
    return folder / "dragoman.toml"


def test_a_local_file_is_ignored_until_it_is_trusted(home: dict[str, str]):
    Path("dragoman.toml").write_text(LOCAL)
    config = load_file(None, home)
    assert (config.port, config.file) == (8787, "")
    assert config.ignored_file == "dragoman.toml is not trusted"
    trust(Path("dragoman.toml"), home)
    config = load_file(None, home)
    assert (config.port, config.file, config.ignored_file) == (5, "dragoman.toml", "")


def test_trust_holds_for_the_content(home: dict[str, str]):
    Path("dragoman.toml").write_text(LOCAL)
    trust(Path("dragoman.toml"), home)
    Path("dragoman.toml").write_text(LOCAL.replace("5", "7"))
    config = load_file(None, home)
    assert config.port == 8787
    assert config.ignored_file == "dragoman.toml has changed since it was trusted"


def test_the_file_of_the_user_holds_everywhere_and_below_a_trusted_one(home: dict[str, str]):
    own_file(home).write_text(OWN)
    assert (load_file(None, home).port, load_file(None, home).file) == (6, str(own_file(home)))
    Path("dragoman.toml").write_text(LOCAL)
    assert load_file(None, home).port == 6
    trust(Path("dragoman.toml"), home)
    assert load_file(None, home).port == 5
    assert load_file(str(own_file(home)), home).port == 6


def test_without_a_home_there_is_nothing_to_trust_with(home: dict[str, str]):
    Path("dragoman.toml").write_text(LOCAL)
    assert load_file(None, {}).port == 8787
    with pytest.raises(ConfigError, match="There is no home"):
        trust(Path("dragoman.toml"), {})


def test_the_command_says_what_is_trusted_and_revokes_it(home: dict[str, str]):
    Path("dragoman.toml").write_text(
        '[providers.near]\nprotocol = "anthropic"\nbase_url = "http://127.0.0.1:9"\n'
    )
    assert "dragoman.toml is not trusted: use it with `dragoman trust`" in run("check").stderr
    result = run("trust")
    assert result.stdout.splitlines() == [
        f"{Path('dragoman.toml').resolve()} is trusted. With it:",
        "provider     near: anthropic at http://127.0.0.1:9",
    ]
    result = run("check")
    assert (result.stdout.splitlines()[0], result.stderr) == ("dragoman.toml: no mistakes", "")
    run("trust", "--revoke")
    assert "is not trusted" in run("check").stderr


def test_a_file_with_a_mistake_or_none_at_all_is_not_trusted(home: dict[str, str]):
    assert run("trust").exit_code == 1
    Path("dragoman.toml").write_text("[serve]\n")
    assert run("trust").exit_code == 1
    assert not own_file(home).with_name("trusted.json").exists()
