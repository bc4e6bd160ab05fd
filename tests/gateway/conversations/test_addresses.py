"""Where a store is that no configuration names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.gateway.conversations.store.addresses import default_url
from dragoman.gateway.conversations.store.lazy import open_store
from dragoman.user_folders import config_folder, data_folder

HOME = {"HOME": "/home/u", "APPDATA": "/roaming", "LOCALAPPDATA": "/local"}
FOLDERS = {
    "linux": ({}, "/home/u/.config/dragoman", "/home/u/.local/share/dragoman"),
    "xdg": ({"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"}, "/c/dragoman", "/d/dragoman"),
    "darwin": ({}, *["/home/u/Library/Application Support/dragoman"] * 2),
    "win32": ({}, "/roaming/dragoman", "/local/dragoman"),
}


@pytest.mark.parametrize("platform, row", FOLDERS.items(), ids=FOLDERS)
def test_folders_of_the_platform(
    platform: str, row: tuple[dict[str, str], str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform if platform != "xdg" else "linux")
    more, config, data = row
    assert (config_folder({**HOME, **more}), data_folder({**HOME, **more})) == (Path(config), Path(data))


def test_the_default_store_is_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    async def used() -> None:
        store = open_store()
        assert await store.get("owner", "id") is None
        await store.close()

    asyncio.run(used())
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    folder = tmp_path / "data" / "dragoman"
    assert (folder.stat().st_mode & 0o777, (folder / "dragoman.db").exists()) == (0o700, True)


def test_a_user_without_a_home_has_it_in_the_working_directory() -> None:
    assert default_url({}) == "sqlite:///dragoman.db"
