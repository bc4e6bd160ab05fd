"""The page as HTML: as the gateway serves it, and as one file that opens without a server."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from functools import cache
from importlib.resources import files

from dragoman.core import jsontext
from dragoman.core.model import Wire

# In the order in which they need each other
MODULES = (
    *(
        "dom",
        "api",
        "state",
        "filter",
        "markdown",
        "diff",
        "charts",
        "sample",
        "conversation",
        "wires",
        "losses",
    ),
    *("stream", "window", "route", "actions", "list", "exchange", "overview", "setup", "app"),
)
_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_INDENT = re.compile(r"^\s+", re.MULTILINE)
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_SPACE = re.compile(r"\s*([{};,>])\s*|(?<=:)\s+")


@cache
def _script() -> str:
    """The modules as one script: a name at the top of one is used once in all of them."""
    text = "".join([_source(f"{name}.js") for name in MODULES])
    for pattern in (_IMPORT, _COMMENT, _EXPORT, _INDENT):
        text = pattern.sub("", text)
    return text


@cache
def _style() -> str:
    return _STYLE_SPACE.sub(lambda found: found[1] or "", _STYLE_COMMENT.sub("", _source("style.css")))


def _source(name: str) -> str:
    return files("dragoman.inspector").joinpath("page", name).read_text()


def _html(style: str, data: str = "") -> str:
    page = _source("index.html").replace("<!--style-->", style + f"<style>{_style()}</style>")
    return page.replace("<!--script-->", f'{data}<script type="module">{_script()}</script>')


@cache
def page() -> tuple[bytes, str]:
    """The page in one answer, and its content security policy: nothing is loaded from anywhere."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    return _html("").encode(), policy


@cache
def compressed_page() -> bytes:
    return gzip.compress(page()[0], 9, mtime=0)


def exported(*views: Wire) -> bytes:
    """Exchanges in one file, opened at the last: data inside, no request to anywhere."""
    held: Wire = {"id": views[-1]["summary"]["id"]}
    for view in views:
        path = f"/exchanges/{view['summary']['id']}"
        held[path] = {name: value for name, value in view.items() if name != "tabs"}
        held |= {f"{path}/{name}": tab for name, tab in view["tabs"].items()}
    data = jsontext.dumps(held).replace("<", "\\u003c")
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return _html(meta, f'<script type="application/json" id="embedded">{data}</script>').encode()
