"""The program that parses one page of strangers, in a process of its own: `pages` starts it by its file.

    page_parser.py html|pdf      the page on stdin (HTML in UTF-8), its text on stdout

It imports nothing of dragoman, so that it starts fast. Whatever goes wrong is an exit code.
"""

import sys
from contextlib import suppress
from io import BytesIO

PDF_PAGES = 200
_MOST_CHARACTERS = 2 * 1024 * 1024
_MOST_MEMORY = 512 * 1024**2


def main(kind: str) -> None:
    with suppress(ImportError):  # there is none on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    body = sys.stdin.buffer.read()
    text = _markdown(body.decode()) if kind == "html" else _pdf(body)
    sys.stdout.buffer.write(text[:_MOST_CHARACTERS].encode(errors="replace"))


def _markdown(html: str) -> str:
    from html_to_markdown import convert

    return convert(html).content or ""


def _pdf(body: bytes) -> str:
    from pypdf import PdfReader

    pages = PdfReader(BytesIO(body)).pages[:PDF_PAGES]
    return "\n\n".join(page.extract_text() for page in pages)


if __name__ == "__main__":
    main(sys.argv[1])
