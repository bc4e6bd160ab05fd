"""Every Python block of the README and of docs/ runs as written, in order, one namespace per page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    str(page.relative_to(ROOT)): page
    for page in (ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))
}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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


@pytest.mark.parametrize("page", WITH_CODE.values(), ids=WITH_CODE)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__page__"}
    for line, source in blocks(page):
        exec(compile("\n" * line + source, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    dead = [target for target in LINK.findall(text) if not (page.parent / target).exists()]
    assert dead == []
