"""Forms as SDKs send them, and what a hostile one may cost."""

import re

import pytest

from dragoman.framing import multipart
from dragoman.framing.multipart import FormError, read_form

KIND = "multipart/form-data; boundary=b"


def part(
    content: str = "x", head: str = 'Content-Disposition: form-data; name="n"', boundary: str = "b"
) -> str:
    return f"--{boundary}\r\n{head}\r\n\r\n{content}\r\n"


def read(data: bytes, kind: str = KIND) -> list[tuple[str, str, bytes]]:
    return [(each.name, each.filename, data[each.start : each.end]) for each in read_form(data, kind)]


def fields(head: str) -> tuple[str, str]:
    ((name, filename, _),) = read(f"{part(head=head)}--b--".encode())
    return name, filename


READ = {
    "one": (part() + "--b--\r\n", [("n", "", b"x")]),
    "no last new line": (part() + "--b--", [("n", "", b"x")]),
    "a new line before": ("\r\n" + part() + "--b--", [("n", "", b"x")]),
    "text behind": (part() + "--b-- and more\r\n--b", [("n", "", b"x")]),
    "empty": (part("") + "--b--", [("n", "", b"")]),
    "none": ("--b--\r\n", []),
    "twice": (part("1") + part("2") + "--b--", [("n", "", b"1"), ("n", "", b"2")]),
    "new lines": (part("\r\n\r\n-\r\n") + "--b--", [("n", "", b"\r\n\r\n-\r\n")]),
    "a boundary within a line": (part("a--b\n--b") + "--b--", [("n", "", b"a--b\n--b")]),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_forms(text: str, expected: list[tuple[str, str, bytes]]):
    assert read(text.encode()) == expected


REFUSED = {
    "nothing": ("", KIND, "begin with its boundary"),
    "another boundary": (part(boundary="c"), KIND, "begin with its boundary"),
    "JSON": ("{}", "application/json", "expected multipart/form-data"),
    "no boundary": (part(), "multipart/form-data", "no valid boundary"),
    "an empty boundary": (part(), 'multipart/form-data; boundary=""', "no valid boundary"),
    "a long boundary": (part(), "multipart/form-data; boundary=" + "b" * 71, "no valid boundary"),
    "a cut form": (part() + "--b", KIND, "expected a new line or --"),
    "a cut part": (part()[:-2], KIND, "ends inside a part"),
    "a cut head": ("--b\r\nContent-Disposition: form-data", KIND, "no head"),
    "a boundary in a line": (part("x\r\n--bc\r\n") + "--b--", KIND, "expected a new line or --"),
    "no head": ("--b\r\n\r\nx\r\n--b--", KIND, "no head"),
    "no name": (part(head="Content-Disposition: form-data") + "--b--", KIND, "no content-disposition"),
    "an attachment": (part(head='Content-Disposition: attachment; name="n"') + "--b--", KIND, "no content-d"),
    "no disposition": (part(head="Content-Type: text/plain") + "--b--", KIND, "no content-disposition"),
    "a folded header": (part(head="A: b\r\n c: d") + "--b--", KIND, "header without a name"),
    "a header without a colon": (part(head="abc") + "--b--", KIND, "header without a name"),
    "an open quote": (part(head='Content-Disposition: form-data; name="n') + "--b--", KIND, "cannot be read"),
    "a long head": (part(head="A: " + "b" * 9000) + "--b--", KIND, "more than 8192 bytes"),
    "a long type": (part(), KIND + "; a=b" * 2000, "more than 8192 characters"),
    "129 parts": (part() * 129 + "--b--", KIND, "more than 128 parts"),
}


@pytest.mark.parametrize(("text", "kind", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text: str, kind: str, problem: str):
    with pytest.raises(FormError, match=re.escape(problem)):
        read(text.encode(), kind)


NAMES = {
    'form-data; name="a"; filename="b c.jsonl"': ("a", "b c.jsonl"),
    "form-data; name=a; filename=b": ("a", "b"),
    'FORM-DATA; NAME="a"': ("a", ""),
    'form-data; name="a;b"; filename="c\\"d\\\\e"': ("a;b", 'c"d\\e'),
    'form-data; name="a"; filename="C:\\dir\\b.txt"': ("a", "C:\\dir\\b.txt"),
    'form-data; name="ü"; filename="日本"': ("ü", "日本"),
    "form-data; name=a; filename=b; filename*=UTF-8''na%C3%AFve": ("a", "naïve"),
    "form-data; name=a; filename=b; filename*=UTF-7''x": ("a", "b"),
}


@pytest.mark.parametrize(("value", "expected"), NAMES.items())
def test_names(value: str, expected: tuple[str, str]):
    assert fields(f"Content-Disposition: {value}") == expected


@pytest.mark.parametrize(
    "kind", ['multipart/form-data; boundary="b"', "Multipart/Form-Data; charset=utf-8;boundary=b"]
)
def test_content_types(kind: str):
    assert read(f"{part()}--b--".encode(), kind) == [("n", "", b"x")]


HOSTILE = {
    "a tiny boundary": b"\r\n--b" * 400_000,
    "dashes": part().encode() + b"\r\n-" * 1_000_000,
    "encoded words": part(
        head='Content-Disposition: form-data; name="' + "=?utf-8?q?a?= " * 12000 + '"'
    ).encode(),
    "parentheses": part(head="Content-Disposition: form-data; name=x " + "(" * 5000).encode(),
    "parts": part().encode() * 100_000,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_form_is_searched_once_for_each_part(data: bytes, monkeypatch: pytest.MonkeyPatch):
    """What grows with the input is counted, and is no more than one search for each part that is allowed."""
    heads: list[int] = []
    head = multipart._head  # pyright: ignore[reportPrivateUsage] - the steps are counted, not timed
    monkeypatch.setattr(multipart, "_head", lambda data, at: (heads.append(at), head(data, at))[1])
    with pytest.raises(FormError):
        read(data)
    assert len(heads) <= multipart.MOST_PARTS
