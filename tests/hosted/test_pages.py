"""Pages as text, parsed in a process of their own."""

from pathlib import Path

import pytest

from dragoman.fetch import FetchError, WebPage
from dragoman.hosted import pages
from dragoman.hosted.page_parser import PDF_PAGES
from dragoman.hosted.pages import read_page


def page(kind: str, body: bytes) -> WebPage:
    return WebPage("https://e.org/p", kind, "utf-8", body, cut=False)


def pdf(text: str, pages: int = 1) -> bytes:
    content = f"BT /F 12 Tf ({text}) Tj ET".encode()
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%b]/Count %d>>" % (b"3 0 R " * pages, pages),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    written, table = b"%PDF-1.4\n", b"xref\n0 6\n0000000000 65535 f \n"
    for number, each in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(written)
        written += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    return written + table + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(written)


READ = {
    "a PDF": ("application/pdf", pdf("Deep fjords"), "Deep fjords"),
    "a broken PDF": ("application/pdf", b"%PDF-1.4 no", None),
    "HTML": ("text/html", "<h1>Fjörds</h1><p>Deep <b>water</b>".encode(), "# Fjörds\n\nDeep **water**"),
    "HTML as XML": ("application/xhtml+xml", b"<p>Deep</p>", "Deep"),
    "HTML whose text only the scanner finds": ("text/html", b"<b>" * 3000 + b"deep", "deep"),
    "text": ("text/plain", b"<p>Deep", "<p>Deep"),
    "JSON": ("application/problem+json", b"{}", "{}"),
    "an image": ("image/png", b"\x89PNG", None),
}


@pytest.mark.parametrize("kind, body, text", READ.values(), ids=READ)
def test_a_page_as_text(kind: str, body: bytes, text: str | None):
    found = read_page(page(kind, body), 60)
    assert (found and found.strip()) == text


@pytest.mark.parametrize("kind, body", [("text/html", b"<p>Deep"), ("application/pdf", pdf("Deep"))])
def test_without_a_parser(kind: str, body: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "find_spec", lambda _: None)
    assert read_page(page(kind, body), 60) == ("Deep" if kind == "text/html" else None)


@pytest.mark.parametrize("kind", ["text/html", "application/pdf"])
def test_parsing_ends_at_the_deadline(kind: str):
    with pytest.raises(FetchError, match="took longer") as failed:
        read_page(page(kind, b"<p>Deep"), 0)
    assert failed.value.problem == "timeout"


def test_the_parser_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "parser.py"
    script.write_text("import os; print(dict(os.environ))")
    monkeypatch.setattr(pages, "_PARSER", script)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    found = read_page(page("application/pdf", b""), 60)
    assert found
    assert "PYTHONPATH" in found
    assert "sk-of-the-user" not in found


def test_a_long_pdf_is_cut():
    found = read_page(page("application/pdf", pdf("fjord", PDF_PAGES + 3)), 60)
    assert found
    assert found.count("fjord") == PDF_PAGES
