"""Every Python block of the README and of docs/ runs as written, in order, one namespace per page.

Links have targets, and the files and modules that pages name exist.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

from dragoman.gateway.config import Config
from dragoman.gateway.observability.access_log import AccessLog
from dragoman.gateway.process.serve import PrivateGateway, private_gateway

ROOT = Path(__file__).parents[2]
ROOT_PAGES = (ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md")
PAGES = {str(page.relative_to(ROOT)): page for page in (*ROOT_PAGES, *sorted((ROOT / "docs").rglob("*.md")))}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w./-]+(?:\.(?:py|toml|md|js|svg)|/))`")  # a path in backticks, without placeholders
GATEWAY = ("OPENAI_BASE_URL=http://127.0.0.1:8787/v1", "ANTHROPIC_BASE_URL=http://127.0.0.1:8787")
EXAMPLES = {"NNNN-the-choice-in-a-few-words.md", "dragoman.toml"}
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


def blocks(page: Path) -> list[tuple[int, str]]:
    """Each block with the line where it begins, so that a traceback points into the page."""
    text = page.read_text()
    return [(text.count("\n", 0, found.start(1)), found[1]) for found in BLOCK.finditer(text)]


WITH_CODE = {name: page for name, page in PAGES.items() if blocks(page)}


def test_the_pages_that_teach_hold_code():
    assert {
        "README.md",
        "docs/tutorial/first-translation.md",
        "docs/how-to/embed-in-a-gateway.md",
        "docs/reference/library.md",
        "docs/reference/losses.md",
        "docs/explanation/state.md",
    } <= WITH_CODE.keys()


@pytest.fixture
def gateway() -> Iterator[PrivateGateway]:
    with private_gateway(Config(), AccessLog(lambda line: None)) as served:
        yield served


@pytest.mark.parametrize("page", WITH_CODE.values(), ids=WITH_CODE)
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.chdir(tmp_path)
    if any(f"export {address} " in page.read_text() for address in GATEWAY):
        gateway = request.getfixturevalue("gateway")  # instead of `dragoman serve`
        for vendor, path in (("OPENAI", "/v1"), ("ANTHROPIC", "")):
            monkeypatch.setenv(f"{vendor}_BASE_URL", gateway.url + path)
            monkeypatch.setenv(f"{vendor}_API_KEY", gateway.key)
    namespace = {"__name__": "__page__"}
    for line, source in blocks(page):
        exec(compile("\n" * line + source, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    dead = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert dead == []


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """Every file and folder of the repository, by its path and by each end of its path."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [PurePath(line) for line in listed.stdout.splitlines()]
    paths = {path for file in files for path in (file, *file.parents)}
    return {str(PurePath(*path.parts[start:])) for path in paths for start in range(len(path.parts))}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_files_that_a_page_names_exist(page: Path, tracked: set[str]):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    named = {found.rstrip("/") for found in FILE.findall(text)} - EXAMPLES
    assert sorted(named - tracked) == []


def test_the_layers_of_the_design_page_are_those_of_the_package():
    design = (ROOT / "docs/explanation/design.md").read_text()
    layers = {*re.findall(r"\w+", design.partition("\ncore ←")[2].partition("```")[0]), "core"}
    modules = [path.stem for path in (ROOT / "src/dragoman").iterdir() if path.name != "py.typed"]
    assert layers == {name for name in modules if not name.startswith("_")}
