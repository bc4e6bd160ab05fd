"""A page as text for a model: HTML as Markdown, PDF as its text, other text as it is.

HTML and PDF are parsed in a process of their own, which is killed at the deadline. A page can be made so that
parsing takes minutes, and html-to-markdown holds the interpreter's lock while it works: in a thread, one page
would stop every stream of the gateway.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from threading import BoundedSemaphore

from dragoman.fetch import FetchError, WebPage
from dragoman.fetch.pagetext import page_text

PDF = "application/pdf"
_PARSER = Path(__file__).with_name("page_parser.py")
_PARSERS = BoundedSemaphore(8)  # that run at a time: each may take much memory
_INHERITED = ("SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # no keys


def read_page(page: WebPage, seconds: float) -> str | None:
    """None: it is neither text, HTML nor PDF. It blocks, for `seconds` at most."""
    kind = page.media_type
    if kind in ("text/html", "application/xhtml+xml"):
        html = page.text()
        return _parse(page.url, "html", html.encode(errors="replace"), seconds) or page_text(html)
    if kind == PDF:
        return _parse(page.url, "pdf", page.body, seconds)
    if kind.startswith("text/") or kind.endswith(("json", "xml", "javascript")):
        return page.text()
    return None


def _parse(url: str, kind: str, body: bytes, seconds: float) -> str | None:
    """None: the parser is not installed, or cannot read it."""
    if find_spec({"html": "html_to_markdown", "pdf": "pypdf"}[kind]) is None:
        return None
    environ = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-P", str(_PARSER), kind]
    overdue = FetchError(f"{url}: reading the page took longer than {seconds:.3g} s", "timeout")
    deadline = time.monotonic() + seconds
    if not _PARSERS.acquire(timeout=seconds):
        raise overdue
    try:
        left = max(deadline - time.monotonic(), 0)
        parsed = subprocess.run(
            command, input=body, env=environ, timeout=left, check=True, capture_output=True
        )
    except subprocess.TimeoutExpired:
        raise overdue from None
    except (OSError, subprocess.CalledProcessError):
        return None
    finally:
        _PARSERS.release()
    return parsed.stdout.decode(errors="replace")
