"""Each tool of seed 001 has its name and parameters there and gives the text that the seed shows."""

import asyncio
import json
from base64 import b64decode
from pathlib import Path

import pytest
import uvloop

from dragoman.client.values import ToolOutcome
from dragoman.core.model import Base64
from dragoman.toolkit import Limits, standard_tools
from toolkit.conftest import PNG

PARAMETERS = {
    "run_shell_command": ({"command"}, {"directory", "description"}),
    "shell": ({"command"}, {"workdir", "timeout_ms"}),
    "read_file": ({"absolute_path"}, {"offset", "limit"}),
    "read_many_files": ({"paths"}, {"exclude"}),
    "write_file": ({"file_path", "content"}, set()),
    "replace": ({"file_path", "old_string", "new_string"}, {"expected_replacements"}),
    "search_file_content": ({"pattern"}, {"path", "include", "max_matches"}),
    "web_fetch": ({"prompt"}, set()),
    "google_web_search": ({"query"}, set()),
    "view_image": ({"path"}, set()),
}


def test_names_and_parameters(root: Path):
    tools = standard_tools(root)
    assert {tool.name for tool in tools} == set(PARAMETERS)
    for tool in tools:
        required, optional = PARAMETERS[tool.name]
        assert set(tool.parameters["required"]) == required
        assert set(tool.parameters["properties"]) == required | optional


RESULTS = {
    "a command": (
        "run_shell_command",
        {"command": "ls src"},
        "Command: ls src\nDirectory: (root)\nOutput: a.ts\nb.ts\nc.py\nError: (none)\nExit Code: 0",
    ),
    "a command in a directory": (
        "run_shell_command",
        {"command": "pwd | xargs basename", "directory": "src", "description": "Where am I?"},
        "Command: pwd | xargs basename\nDirectory: src\nOutput: src\nError: (none)\nExit Code: 0",
    ),
    "a command that fails": (
        "run_shell_command",
        {"command": "echo no >&2; exit 3"},
        "Command: echo no >&2; exit 3\nDirectory: (root)\nOutput: (empty)\nError: no\nExit Code: 3",
    ),
    "a command that is killed": (
        "run_shell_command",
        {"command": "kill -9 $$"},
        "Command: kill -9 $$\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 137",
    ),
    "a program": (
        "shell",
        {"command": ["ls", "src"]},
        '{"output":"a.ts\\nb.ts\\nc.py\\n","metadata":{"exit_code":0}}',
    ),
    "a program whose arguments no shell reads": (
        "shell",
        {"command": ["echo", "$HOME; ls"], "workdir": "src"},
        '{"output":"$HOME; ls\\n","metadata":{"exit_code":0}}',
    ),
    "a program that fails": (
        "shell",
        {"command": ["sh", "-c", "echo a; echo b >&2; exit 4"]},
        '{"output":"a\\nb\\n","metadata":{"exit_code":4}}',
    ),
    "a file": (
        "read_file",
        {"absolute_path": "ROOT/README.md"},
        "# Project Title\nThis is a sample project.\n",
    ),
    "a file by a link inside": ("read_file", {"absolute_path": "inner/b.ts"}, "// TODO: add tests\n"),
    "some lines": (
        "read_file",
        {"absolute_path": "README.md", "limit": 1},
        "# Project Title\n[lines 1 to 1 of 2; go on with offset=1]",
    ),
    "the last lines": (
        "read_file",
        {"absolute_path": "README.md", "offset": 1},
        "This is a sample project.\n",
    ),
    "lines behind the end": (
        "read_file",
        {"absolute_path": "README.md", "offset": 9},
        "[the file has 2 lines; there is nothing from offset=9 on]",
    ),
    "null for what is left out": (
        "read_file",
        {"absolute_path": "README.md", "offset": None, "limit": None},
        "# Project Title\nThis is a sample project.\n",
    ),
    "a number as text": (
        "read_file",
        {"absolute_path": "README.md", "limit": "1"},
        "# Project Title\n[lines 1 to 1 of 2; go on with offset=1]",
    ),
    "many files, one outside": (
        "read_many_files",
        {"paths": ["/etc/hostname", "/etc/*.conf", "src/c.py"]},
        "--- /etc/hostname ---\n[not read: /etc/hostname is outside of ROOT]\n"
        "--- /etc/*.conf ---\n[not read: /etc/*.conf is outside of ROOT]\n--- src/c.py ---\n# TODO: type",
    ),
    "many files": (
        "read_many_files",
        {"paths": ["ROOT/src/a.ts", "ROOT/src/b.ts"]},
        "--- ROOT/src/a.ts ---\none\n  // TODO: refactor\n--- ROOT/src/b.ts ---\n// TODO: add tests",
    ),
    "many files by a pattern": (
        "read_many_files",
        {"paths": ["src/*.ts"], "exclude": ["a.*"]},
        "--- ROOT/src/b.ts ---\n// TODO: add tests",
    ),
    "many files by a directory": (
        "read_many_files",
        {"paths": ["src"], "exclude": ["*.ts"]},
        "--- ROOT/src/c.py ---\n# TODO: type",
    ),
    "many files, one missing": (
        "read_many_files",
        {"paths": ["none", "src/c.py"]},
        "--- none ---\n[not read: none: No such file or directory]\n--- src/c.py ---\n# TODO: type",
    ),
    "a new file": (
        "write_file",
        {"file_path": "ROOT/deep/er/NEW.txt", "content": "hello"},
        "Wrote 5 bytes to ROOT/deep/er/NEW.txt",
    ),
    "bytes, not characters": (
        "write_file",
        {"file_path": "NEW.txt", "content": "72 °F"},
        "Wrote 6 bytes to NEW.txt",
    ),
    "a replacement": (
        "replace",
        {"file_path": "ROOT/src/a.ts", "old_string": "one", "new_string": "two", "expected_replacements": 1},
        "Updated ROOT/src/a.ts: 1 replacement",
    ),
    "two replacements": (
        "replace",
        {"file_path": "src/a.ts", "old_string": "o", "new_string": "0", "expected_replacements": 2},
        "Updated src/a.ts: 2 replacements",
    ),
}


@pytest.mark.parametrize("name, arguments, text", RESULTS.values(), ids=RESULTS)
def test_result_texts(name: str, arguments: dict, text: str, root: Path, use):
    placed = json.loads(json.dumps(arguments).replace("ROOT", str(root)))
    found = use(name, **placed)
    assert found == ToolOutcome(text.replace("ROOT", str(root)))


def test_what_was_written_is_there(root: Path, use):
    use("write_file", file_path="deep/er/NEW.txt", content="hello")
    use("replace", file_path="deep/er/NEW.txt", old_string="ell", new_string="$1\\1")
    assert (root / "deep/er/NEW.txt").read_text() == "h$1\\1o"
    use("write_file", file_path="deep/er/NEW.txt", content="x")
    assert (root / "deep/er/NEW.txt").read_bytes() == b"x"


def test_a_replacement_keeps_line_ends_and_other_bytes(root: Path, use):
    (root / "dos.txt").write_bytes(b"a\r\nb\r\n\xff\r\n")
    assert use("replace", file_path="dos.txt", old_string="a\nb", new_string="c\nd").failed is False
    assert (root / "dos.txt").read_bytes() == b"c\r\nd\r\n\xff\r\n"


SEARCHES = {
    "everywhere": (
        {"pattern": "TODO"},
        "ROOT/src/a.ts:2: // TODO: refactor\nROOT/src/b.ts:1: // TODO: add tests\n"
        "ROOT/src/c.py:1: # TODO: type",
    ),
    "some files": (
        {"pattern": "TODO", "path": "ROOT/src", "include": "**/*.ts"},
        "ROOT/src/a.ts:2: // TODO: refactor\nROOT/src/b.ts:1: // TODO: add tests",
    ),
    "one file": ({"pattern": r"T.DO:\s+r", "path": "src/a.ts"}, "ROOT/src/a.ts:2: // TODO: refactor"),
    "few": (
        {"pattern": "TODO", "max_matches": 1},
        "ROOT/src/a.ts:2: // TODO: refactor\n[only the first 1 matches are shown]",
    ),
    "none": ({"pattern": "nowhere"}, "No matches found."),
    "a pattern like an option": ({"pattern": "--files"}, "No matches found."),
    "an include like an option": ({"pattern": "TODO", "include": "--files"}, "No matches found."),
}


@pytest.mark.parametrize("ripgrep", [None, ""], ids=["ripgrep", "python"])
@pytest.mark.parametrize("arguments, text", SEARCHES.values(), ids=SEARCHES)
def test_searches(arguments: dict, text: str, ripgrep: str | None, root: Path, use):
    placed = json.loads(json.dumps(arguments).replace("ROOT", str(root)))
    found = use("search_file_content", {"ripgrep": ripgrep}, **placed)
    assert found == ToolOutcome(text.replace("ROOT", str(root)))


GLOBS = {
    "*.ts": "a.ts src/d.ts",
    "*.{ts,tsx}": "a.ts b.tsx src/d.ts src/x/f.tsx",
    "!*.py": "a.ts b.tsx docs/[h].md docs/g.md src/d.ts src/x/f.tsx",
    "**/*.py": "c.py src/x/e.py test/src/m.py",
    "src/*.ts": "src/d.ts",
    "/src/*.ts": "src/d.ts",
    "src/**/*.py": "src/x/e.py",
    "x/*.py": "",
    "!src": "a.ts b.tsx c.py docs/[h].md docs/g.md",
    "!docs/": "a.ts b.tsx c.py src/d.ts src/x/e.py src/x/f.tsx test/src/m.py",
    "[!ab].*": "c.py docs/g.md src/d.ts src/x/e.py src/x/f.tsx test/src/m.py",
    "{a,src/d}.ts": "a.ts src/d.ts",
    r"\[h\].md": "docs/[h].md",
    ".*": "",
}


@pytest.mark.parametrize("ripgrep", [None, ""], ids=["ripgrep", "python"])
@pytest.mark.parametrize("include, names", GLOBS.items())
def test_includes(include: str, names: str, ripgrep: str | None, tmp_path: Path):
    every = "a.ts b.tsx c.py src/d.ts src/x/e.py src/x/f.tsx docs/g.md docs/[h].md test/src/m.py"
    every += " .hidden.ts .git/k.ts"
    for name in every.split():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("hit")
    (search,) = [
        tool for tool in standard_tools(tmp_path, ripgrep=ripgrep) if tool.name == "search_file_content"
    ]
    found = asyncio.run(search.acall({"pattern": "hit", "include": include})).text
    listed = [line.removeprefix(f"{tmp_path}/").removesuffix(":1: hit") for line in found.splitlines()]
    assert sorted(listed) == (sorted(names.split()) or ["No matches found."])


def test_a_search_without_ripgrep_works_under_uvloop(root: Path):
    """Its pipes are no asyncio.WriteTransport: the question never arrived, and the search took 120 s."""
    tools = {tool.name: tool for tool in standard_tools(root, ripgrep="", limits=Limits(seconds=10))}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(tools["search_file_content"].acall({"pattern": "type"}))
    assert found.text == f"{root}/src/c.py:1: # TODO: type"


@pytest.mark.parametrize("ripgrep", [None, ""], ids=["ripgrep", "python"])
def test_a_broken_pattern_is_refused(ripgrep: str | None, use):
    found = use("search_file_content", {"ripgrep": ripgrep}, pattern="(")
    assert found.failed
    assert "regex parse error" in found.text


BINARIES = {
    "an image": ("read_file", {"absolute_path": "dot.png"}, "image", "image/png"),
    "a PDF": ("read_file", {"absolute_path": "paper.pdf"}, "document", "application/pdf"),
    "an image among many": ("read_many_files", {"paths": ["dot.png", "src/b.ts"]}, "image", "image/png"),
    "an image to look at": ("view_image", {"path": "dot.png"}, "image", "image/png"),
}


@pytest.mark.parametrize("name, arguments, kind, media_type", BINARIES.values(), ids=BINARIES)
def test_binaries_come_as_media(name: str, arguments: dict, kind: str, media_type: str, use):
    found = use(name, **arguments)
    (media,) = found.media
    assert (media.kind, media.media_type) == (kind, media_type)
    if name != "view_image":
        assert f"Binary content of type {media_type} was processed." in found.text
    if kind == "image":
        assert isinstance(media.source, Base64)
        assert b64decode(media.source.data) == PNG


def test_tools_run_side_by_side(root: Path):
    (shell,) = (tool for tool in standard_tools(root) if tool.name == "shell")

    async def both() -> list[ToolOutcome]:
        return await asyncio.gather(*(shell.acall({"command": ["echo", str(n)]}) for n in range(8)))

    assert [json.loads(found.text)["output"] for found in asyncio.run(both())] == [f"{n}\n" for n in range(8)]
