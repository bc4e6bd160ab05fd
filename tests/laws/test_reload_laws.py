"""No change of the configuration makes a running gateway less strict than a start would allow.

The oracle is a start: the same file, at the address that the gateway already listens on.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.errors import ConfigError
from dragoman.gateway.config import Config, load_file
from dragoman.gateway.process.reload import ConfigReloader

HOSTS = ("127.0.0.1", "0.0.0.0", "10.0.0.7")
FULL = """[server]
host = "HOST"
keys = ["key-a"]
reload = true

[keys.team]
key = "key-b"
models = ["small-*"]

[inspector]
enabled = true
admin_keys = ["admin-a"]

[providers.local]
protocol = "openai-chat"
base_url = "http://127.0.0.1:9/v1"
"""
LINES = [
    *FULL.splitlines(keepends=True),
    "keys = []\n",
    'keys = ["key-c"]\n',
    'host = "127.0.0.1"\n',
    "admin_keys = []\n",
    "enabled = false\n",
    "[limits]\n",
    "[server",
    'keys = [\n"key-d",\n',
]


def start(file: Path, **variables: str) -> Config:
    return load_file(str(file), variables)


def reload(running: Config, load: Callable[[], Config]) -> Config:
    """What is in force after SIGHUP."""
    reloader = ConfigReloader(running, load, bool)
    reloader.request()
    while reloader.requested:
        reloader.poll()
    return reloader.config


def check(file: Path, host: str, text: str) -> None:
    file.write_text(FULL.replace("HOST", host))
    running = start(file)
    file.write_text(text)
    after = reload(running, lambda: start(file))
    assert after.host == host
    assert after.keys, "a gateway with keys asks for one as long as it runs"
    assert after.admin_keys or after.keys
    assert after.inspector.enabled
    try:
        start(file, DRAGOMAN_SERVER__HOST=host, DRAGOMAN_INSPECTOR__ENABLED="true")
    except ConfigError:
        assert after == running, "a start would have been refused"


@pytest.mark.parametrize("host", HOSTS)
def test_a_file_that_is_cut_anywhere(tmp_path: Path, host: str):
    text = FULL.replace("HOST", host)
    for length in range(len(text) + 1):
        check(tmp_path / "dragoman.toml", host, text[:length])


@settings(max_examples=300)
@given(host=st.sampled_from(HOSTS), lines=st.lists(st.sampled_from(LINES), max_size=12))
def test_any_lines(tmp_path_factory: pytest.TempPathFactory, host: str, lines: list[str]):
    file = tmp_path_factory.getbasetemp() / "any-lines.toml"
    check(file, host, "".join(lines).replace("HOST", host))


@settings(max_examples=300)
@given(host=st.sampled_from(HOSTS), kept=st.lists(st.booleans(), min_size=20, max_size=20))
def test_lines_that_are_removed(tmp_path_factory: pytest.TempPathFactory, host: str, kept: list[bool]):
    file = tmp_path_factory.getbasetemp() / "fewer-lines.toml"
    lines = FULL.replace("HOST", host).splitlines(keepends=True)
    check(file, host, "".join(line for line, keep in zip(lines, kept, strict=False) if keep))


def test_the_last_admin_key_stays_where_there_are_no_others(tmp_path: Path):
    file = tmp_path / "dragoman.toml"
    file.write_text('[inspector]\nenabled = true\nadmin_keys = ["admin-a"]\n')
    running = start(file)
    file.write_text("[inspector]\nenabled = true\n")
    assert reload(running, lambda: start(file)) == running


def test_a_file_is_read_when_it_holds_still(tmp_path: Path):
    """Saved in place: empty, then half of it, then whole, one look at the file after each."""
    file = tmp_path / "dragoman.toml"
    file.write_text(FULL.replace("HOST", "127.0.0.1"))
    notes: list[str] = []
    reloader = ConfigReloader(start(file), lambda: start(file), notes.append)
    new = FULL.replace("HOST", "127.0.0.1") + "# new\n"
    for text in ("", new[: len(new) // 2], new):
        file.write_text(text)
        assert reloader.poll() is None
    assert notes == []
    assert reloader.poll() is not None
    (note,) = notes
    assert "was reloaded" in note


def test_a_file_that_is_saved_while_it_is_read_is_read_again(tmp_path: Path):
    file = tmp_path / "dragoman.toml"
    text = FULL.replace("HOST", "127.0.0.1")
    file.write_text(text)
    running, reads = start(file), 0

    def load() -> Config:
        nonlocal reads
        reads += 1
        config = start(file)
        if reads == 1:
            file.write_text(text.replace("key-b", "key-longer"))
        return config

    assert "key-longer" in reload(running, load).keys
    assert reads == 2
