"""What is installed: packages counted from requirements, and lock files that hold the same."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/what-you-install.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NOT_COUNTED = {"ray"}  # which the tests do without
LOCKS = {"requirements.txt": ("gateway",), "requirements-postgres.txt": ("gateway", "postgres")}
SERVER = {  # where markers of requirements are read: Linux, CPython 3.13
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.13.0",
    "python_version": "3.13",
    "sys_platform": "linux",
}


def packages(*extras: str) -> set[str]:
    """Everything that dragoman with these extras needs, itself left out."""
    found: set[tuple[str, str]] = set()
    for text in (*PROJECT["dependencies"], *(each for extra in extras for each in EXTRAS[extra])):
        _collect(Requirement(text), found)
    return {name for name, _ in found} - {"dragoman"}


def _collect(requirement: Requirement, found: set[tuple[str, str]]) -> None:
    name = canonicalize_name(requirement.name)
    for extra in ("", *requirement.extras):
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for each in _requirements(name, extra):
            _collect(each, found)


def _requirements(name: str, extra: str) -> list[Requirement]:
    if name == "dragoman":
        return [Requirement(text) for text in EXTRAS.get(extra, ())]
    needed = [Requirement(text) for text in requires(name) or ()]
    return [
        each for each in needed if each.marker is None or each.marker.evaluate({**SERVER, "extra": extra})
    ]


def rows() -> dict[str, tuple[int, set[str]]]:
    """extra -> how many packages the page says, and which it names beside the first three."""
    found = re.findall(r"^\| `dragoman(?:\[(\w+)\])?` \| (\d+) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    return {extra: (int(count), set(re.findall(r"`([\w.-]+)`", names))) for extra, count, names in found}


def test_each_extra_has_a_row() -> None:
    assert set(rows()) == {"", *EXTRAS} - NOT_COUNTED


@pytest.mark.parametrize("extra", sorted({"", *EXTRAS} - NOT_COUNTED))
def test_packages_are_counted_and_named(extra: str) -> None:
    count, named = rows()[extra]
    needed = packages(*filter(None, [extra]))
    assert count == len(needed)
    if extra != "all":
        assert named == (needed - packages() if extra else needed)


@pytest.mark.parametrize("file, extras", LOCKS.items(), ids=LOCKS)
def test_lock_files_hold_what_is_needed_with_hashes(file: str, extras: tuple[str, ...]) -> None:
    text = (ROOT / "deploy" / file).read_text()
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    assert all(re.fullmatch(r"\S+==.+?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n", each) for each in entries)
    listed = [Requirement(each.partition("\\")[0]) for each in entries]
    pinned = {
        each.name: str(each.specifier)[2:]
        for each in listed
        if not each.marker or each.marker.evaluate(SERVER)
    }
    assert set(pinned) == packages(*extras)
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert {name: locked[name] for name in pinned} == pinned
    assert "://" not in text  # no index is recorded: yours is used


def test_the_way_to_install_them_is_on_the_page() -> None:
    assert "--require-hashes -r deploy/requirements.txt" in PAGE.read_text()


# the page for releases, and where the command is made for an installation that an index gave
AFTER_A_RELEASE = {ROOT / "docs/how-to/release.md", ROOT / "src/dragoman/core/optional.py"}
BY_NAME = re.compile(r"\b(?:pip|uv|pipx)\b[^\n]*?\b(?:install|add) (?:[^\n]*?['\" ])??['\"]?dragoman\b(?!/)")
EXTRAS_IN_CLONE = re.compile(r"install (?:-e )?'?\.\[([\w,]+)\]")


def texts() -> dict[Path, str]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").glob("*")]
    return {page: page.read_text() for page in (*pages, *(ROOT / "src").rglob("*.py")) if page.is_file()}


def test_nothing_installs_a_release_that_does_not_exist() -> None:
    """Who takes the name on the index would be installed. After the first release this test goes."""
    wrong = {page: found for page, text in texts().items() if (found := BY_NAME.findall(text))}
    assert {page: found for page, found in wrong.items() if page not in AFTER_A_RELEASE} == {}


@pytest.mark.parametrize(
    "line",
    ["pip install 'dragoman[client]'", "python -m pip install --no-deps dragoman==1.0", "uv add dragoman"],
)
def test_the_wrong_form_is_recognised(line: str) -> None:
    assert BY_NAME.search(line)


def test_extras_that_pages_install_exist() -> None:
    named = {
        extra
        for text in texts().values()
        for found in EXTRAS_IN_CLONE.findall(text)
        for extra in found.split(",")
    }
    assert "client" in named
    assert named <= EXTRAS.keys()
