"""The page as HTML: as the gateway serves it, and as one file that opens without a server."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from functools import cache
from importlib.resources import files

from dragoman.core import jsontext
from dragoman.core.model import Wire

# In an order that compresses well. The last one starts the page; the others only say what there is.
MODULES = (
    *("dom", "losses", "wires", "markdown", "diff", "conversation", "stream", "filter", "sample", "window"),
    *("route", "actions", "charts", "list", "state", "overview", "setup", "api", "exchange", "app"),
)
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_AHEAD = r"(?:(?<=[(\[{,;=:!&|?>])|(?<=[(\[{,;=:!&|?>] ))"  # of a regular expression; else a slash divides
_REGEX = _AHEAD + r"/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*"


def _template(depth: int) -> str:
    """A template, whose expressions may hold objects, and templates down to this depth."""
    inner = f"|{_template(depth - 1)}" if depth else ""
    return rf"`(?:[^`\\$]|\\.|\$(?!\{{)|\$\{{(?:[^`{{}}]|\{{[^`{{}}]*\}}{inner})*\}})*`"


# Texts stay as they are. Comments, imports and the spaces around signs go, and brackets around one parameter.
_SQUEEZED = re.compile(
    rf"({_STRING}|{_template(2)}|{_REGEX})"
    r"|\s*//.*|^(?:import .*\n|\s+|export )|(?<!async )\((\w+)\) (?==>)|,\s*(?=[)}\]])"
    r"| ?(=>|[=!]==|[-+<>]=|&&|\|\||\?\?|[-{}(),;:?=<>*+/])(?: |(?<=[{;,(])\s+)?",
    re.MULTILINE,
)
_EXPRESSION = re.compile(r"\$\{([^`{}]*)\}")
_VARIABLE = re.compile(r"--[a-z][\w-]*")
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_SPACE = re.compile(r"\s*([{};,>])\s*|(?<=:)\s+")


@cache
def _script() -> str:
    """The modules as one script: a name at the top of one is used once in all of them."""
    return squeeze("".join([_source(f"{name}.js") for name in MODULES]))


def squeeze(script: str) -> str:
    """The same in fewer bytes. It needs formatted code, with a semicolon after each statement."""
    return _SQUEEZED.sub(_shorten, script).replace(";}", "}").replace("const ", "let ")


def _shorten(found: re.Match[str]) -> str:
    text, parameter, sign = found.groups()
    if text and text[0] == "`":
        return _EXPRESSION.sub(lambda inner: f"${{{squeeze(inner[1])}}}", text)
    return text or parameter or sign or ""


@cache
def _style() -> str:
    style = _STYLE_SPACE.sub(lambda found: found[1] or "", _STYLE_COMMENT.sub("", _source("style.css")))
    # names of colours and fonts, in the order in which they come; scripts set the others
    names = [name for name in dict.fromkeys(_VARIABLE.findall(style)) if name not in _script()]
    short = {name: f"--{number:x}" for number, name in enumerate(names) if not name.startswith("--w-")}
    return _VARIABLE.sub(lambda found: short.get(found[0], found[0]), style)


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
def compress_page() -> bytes:
    """Style and script are a block each: what is frequent in one is not so in the other."""
    head, mark, script = page()[0].partition(b"<script")
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS + 16, memLevel=9)
    packed = [packer.compress(head), packer.flush(zlib.Z_PARTIAL_FLUSH)]
    return b"".join([*packed, packer.compress(mark + script), packer.flush()])


def export(*views: Wire) -> bytes:
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
