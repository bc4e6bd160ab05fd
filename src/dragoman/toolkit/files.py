"""Files: read one, read many, write, replace, look at an image. A path that leads out of the root is
refused."""

from __future__ import annotations

import mimetypes
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from dragoman.client.media import media
from dragoman.client.tools import Tool
from dragoman.core.model import Media, Text
from dragoman.toolkit.limits import Limits, bound_text
from dragoman.toolkit.root import Refused, Root
from dragoman.toolkit.schema import array, integer, string, tool
from dragoman.transforms.content import sniff

Content = str | list[Text | Media]


def file_tools(root: Root, limits: Limits) -> list[Tool]:
    files = _Files(root, limits)
    return [*_reading(files), *_writing(files)]


def image_tools(root: Root, limits: Limits) -> list[Tool]:
    def view_image(path: str) -> list[Text | Media]:
        found = read_media(root.read(path, limits.file))
        if found is None or found.kind != "image":
            raise Refused(f"{path} is not an image")
        return [Text(f"Image {path} ({found.media_type})"), found]

    return [
        tool(view_image, "Look at an image file", ["path"], path=string("The image: PNG, JPEG, GIF or WebP"))
    ]


class _Files:
    """What the tools do; their arguments are named as agents know them."""

    def __init__(self, root: Root, limits: Limits) -> None:
        self._root, self._limits = root, limits

    def read_file(self, absolute_path: str, offset: int = 0, limit: int | None = None) -> Content:
        data = self._root.read(absolute_path, self._limits.file)
        if found := read_media(data):
            return [Text(describe_processed(found)), found]
        return _lines(_text(data, absolute_path), max(offset, 0), limit, self._limits.output)

    def read_many_files(self, paths: Sequence[str], exclude: Sequence[str] = ()) -> Content:
        root, limits = self._root, self._limits
        named = list(_expand(root, [paths] if isinstance(paths, str) else paths, exclude))
        read = [(given, _one(root, given, limits)) for given in named[: limits.files]]
        sections = [f"--- {given} ---\n{text}" for given, (text, _) in read]
        if len(named) > limits.files:
            sections.append(f"[{len(named) - limits.files} more files were not read]")
        shown = [found for _, (_, found) in read if found]
        text = bound_text("\n".join(sections) or "No files found.", limits.output * 4)
        return [Text(text), *shown] if shown else text

    def write_file(self, file_path: str, content: str) -> str:
        data = content.encode(errors="surrogatepass")
        _check_size(len(data), self._limits)
        self._root.write(file_path, data)
        return f"Wrote {len(data)} bytes to {file_path}"

    def replace(
        self, file_path: str, old_string: str, new_string: str, expected_replacements: int = 1
    ) -> str:
        before = self._root.read(file_path, self._limits.file)
        old, new = _spell(before, old_string), _spell(before, new_string)
        if not old:
            raise Refused("old_string is empty: write_file writes a whole file")
        found = before.count(old)
        if found != expected_replacements or not found:
            raise Refused(
                f"{file_path}: expected {_times(expected_replacements, 'occurrence')}, found {found}"
            )
        after = before.replace(old, new)
        _check_size(len(after), self._limits)
        self._root.write(file_path, after)
        return f"Updated {file_path}: {_times(found, 'replacement')}"


def _reading(files: _Files) -> list[Tool]:
    return [
        tool(
            files.read_file,
            "Read a file. Images and PDFs are shown; offset and limit choose lines of a text",
            ["absolute_path"],
            absolute_path=string("The file"),
            offset=integer("Lines to leave out at the start"),
            limit=integer("Lines to read"),
        ),
        tool(
            files.read_many_files,
            "Read several files at once, each under a line with its path",
            ["paths"],
            paths=array("Files, directories, or patterns such as src/**/*.py"),
            exclude=array("Patterns of paths to leave out"),
        ),
    ]


def _writing(files: _Files) -> list[Tool]:
    return [
        tool(
            files.write_file,
            "Write a file, in place of what it held; missing directories are made",
            ["file_path", "content"],
            parallel=False,
            file_path=string("The file"),
            content=string("All that it shall hold"),
        ),
        tool(
            files.replace,
            "Replace text in a file; refused if it does not occur as often as expected",
            ["file_path", "old_string", "new_string"],
            parallel=False,
            file_path=string("The file"),
            old_string=string("The text as it stands, to the last space"),
            new_string=string("What takes its place"),
            expected_replacements=integer("How often it occurs; default: once"),
        ),
    ]


def read_media(data: bytes) -> Media | None:
    """`data` as media if its first bytes say that it is an image or a PDF."""
    return media(data) if sniff(b64encode(data[:48]).decode()) else None


def describe_processed(found: Media) -> str:
    return f"Binary content of type {found.media_type} was processed."


def _text(data: bytes, given: str) -> str:
    if b"\0" in data[:8192]:
        guessed = mimetypes.guess_type(given)[0] or "application/octet-stream"
        raise Refused(f"{given} is binary ({guessed}, {len(data)} bytes) and cannot be shown as text")
    return data.decode(errors="replace")


def _lines(text: str, offset: int, limit: int | None, most: int) -> str:
    """Whole lines as they stand, as many as fit, and where to go on if that was not all."""
    lines = text.split("\n")
    total = len(lines) - (lines[-1] == "")
    wanted = lines[offset : None if limit is None else offset + max(limit, 0)]
    if sum(map(len, wanted)) + len(wanted) - 1 > most:
        wanted = _fitting(wanted, most)
    if offset >= total > 0:
        return f"[the file has {_times(total, 'line')}; there is nothing from offset={offset} on]"
    shown, end = "\n".join(wanted), offset + len(wanted)
    if end >= total and len(shown) <= most:
        return shown
    note = f"[lines {offset + 1} to {end} of {total}; go on with offset={end}]"
    return f"{bound_text(shown, most)}\n{note}"


def _fitting(lines: list[str], most: int) -> list[str]:
    size = 0
    for count, line in enumerate(lines):
        size += len(line) + 1
        if size > most:
            return lines[: max(count, 1)]  # a line that is too long alone is shown in part
    return lines


def _one(root: Root, given: str, limits: Limits) -> tuple[str, Media | None]:
    """A file among many: the reason stands in the place of one that cannot be read."""
    try:
        data = root.read(given, limits.file)
        found = read_media(data)
        if found:
            return describe_processed(found), found
        return bound_text(_text(data, given), limits.output).removesuffix("\n"), None
    except Refused as error:
        return f"[not read: {error}]", None


def _expand(root: Root, paths: Sequence[str], exclude: Sequence[str]) -> Iterator[str]:
    """What `paths` name, in order and once. Patterns skip what is hidden and follow no links. A path that is
    refused stands for itself: reading it says why."""
    seen: set[str] = set()
    for given in paths:
        try:
            found = list(_matching(root, given))
        except Refused:
            found = [given]
        for path in found:
            excluded = any(fnmatch(path, each) or fnmatch(path, f"*/{each}") for each in exclude)
            if path not in seen and not excluded:
                seen.add(path)
                yield path


def _matching(root: Root, given: str) -> Iterator[str]:
    found = root.inside(given)
    if found.is_dir():
        yield from _walk(found, "**/*")
    elif any(mark in given for mark in "*?[") and not found.exists():
        pattern = given.removeprefix(f"{root.path}/")
        if Path(pattern).is_absolute():
            raise Refused(f"{given} is outside of {root.path}")
        yield from _walk(root.path, pattern)
    else:
        yield given


def _walk(folder: Path, pattern: str) -> Iterator[str]:
    for path in sorted(folder.glob(pattern)):
        hidden = any(name.startswith(".") for name in path.relative_to(folder).parts)
        if not hidden and path.is_file() and Path(os.path.realpath(path)) == path:
            yield str(path)


def _spell(data: bytes, text: str) -> bytes:
    """`text` with the line ends of `data`: models write LF, whatever the file has."""
    if b"\r\n" in data and "\r" not in text:
        text = text.replace("\n", "\r\n")
    return text.encode(errors="surrogatepass")


def _times(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.file:
        raise Refused(f"the file would have {size} bytes; at most {limits.file} are written")
