"""A page as text for a model: HTML as Markdown, PDF as its text, other text as it is.

Converting takes milliseconds to seconds, so callers do it on a thread.
"""

from __future__ import annotations

from io import BytesIO

from dragoman.fetch import WebPage
from dragoman.fetch.pagetext import page_text

PDF_PAGES = 200


def read_page(page: WebPage) -> str | None:
    """None: it is neither text, HTML nor PDF."""
    kind = page.media_type
    if kind in ("text/html", "application/xhtml+xml"):
        return _markdown(page.text())
    if kind == "application/pdf":
        return _pdf(page.body)
    if kind.startswith("text/") or kind.endswith(("json", "xml", "javascript")):
        return page.text()
    return None


def _markdown(html: str) -> str:
    """Without html-to-markdown: the text without its markup."""
    try:
        from html_to_markdown import convert
    except ModuleNotFoundError:
        return page_text(html)
    try:
        return convert(html).content or page_text(html)
    except Exception:  # a parser of others on bytes of strangers; its errors have no common root
        return page_text(html)


def _pdf(body: bytes) -> str | None:
    try:
        from pypdf import PdfReader
    except ModuleNotFoundError:
        return None
    try:
        pages = PdfReader(BytesIO(body)).pages[:PDF_PAGES]
        return "\n\n".join(page.extract_text() for page in pages)
    except Exception:  # as above: broken files raise what they like
        return None
