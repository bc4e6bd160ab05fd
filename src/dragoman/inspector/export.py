"""The page as HTML: as the gateway serves it, and as one file that opens without a server."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from dragoman.core import jsontext
from dragoman.core.model import Wire

MODULES = (
    *("dom", "api", "state", "filter", "markdown", "diff", "charts", "list", "exchange", "conversation"),
    *("wires", "losses", "stream", "window", "route", "actions", "overview", "setup", "sample", "app"),
)


# Loaded with the first use of a tab or a page
LATER = ("diff", "stream", "window", "route", "actions", "overview", "setup", "sample")


@cache
def asset(name: str) -> bytes:
    """A file of the page, without the comments and the indentation of scripts."""
    data = files("dragoman.inspector").joinpath("page", name).read_bytes()
    if not name.endswith(".js"):
        return data
    lines = [line.strip() for line in data.splitlines()]
    return b"\n".join([line for line in lines if line and not line.startswith(b"//")])


@cache
def page() -> tuple[bytes, str]:
    """The HTML of the page, and its content security policy: nothing is loaded from elsewhere.

    What the list needs is loaded at once, and not one level of imports after the other. `api` runs first: it
    asks for the first rows while the rest arrives.
    """
    imports = {f"inspector/{name}": f"/inspect/static/{name}.js" for name in MODULES}
    needed = [url for name, url in imports.items() if name.rpartition("/")[2] not in LATER]
    mapping = jsontext.dumps({"imports": imports})
    html = asset("index.html").decode()
    html = html.replace("<!--style-->", '<link rel="stylesheet" href="/inspect/static/style.css">')
    preloads = "".join([f'<link rel="modulepreload" href="{url}">' for url in needed])
    html = html.replace("<!--importmap-->", f'<script type="importmap">{mapping}</script>{preloads}')
    scripts = [f'<script type="module" src="/inspect/static/{name}.js"></script>' for name in ("api", "app")]
    html = html.replace("<!--start-->", "".join(scripts))
    digest = base64.b64encode(hashlib.sha256(mapping.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
    return html.encode(), policy


def exported(*views: Wire) -> bytes:
    """Exchanges in one file, opened at the last: scripts, styles and data inside, no request to anywhere."""
    held: Wire = {"id": views[-1]["summary"]["id"]}
    for view in views:
        path = f"/exchanges/{view['summary']['id']}"
        held[path] = {name: value for name, value in view.items() if name != "tabs"}
        held |= {f"{path}/{name}": tab for name, tab in view["tabs"].items()}
    data = jsontext.dumps(held).replace("<", "\\u003c")
    imports = {f"inspector/{name}": _data_url(asset(f"{name}.js")) for name in MODULES}
    html = asset("index.html").decode()
    policy = "default-src 'none'; script-src data: 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    html = html.replace("<!--style-->", f"{meta}<style>{asset('style.css').decode()}</style>")
    html = html.replace(
        "<!--importmap-->",
        f'<script type="application/json" id="embedded">{data}</script>'
        f'<script type="importmap">{jsontext.dumps({"imports": imports})}</script>',
    )
    return html.replace("<!--start-->", '<script type="module">import "inspector/app";</script>').encode()


def _data_url(script: bytes) -> str:
    return "data:text/javascript;base64," + base64.b64encode(script).decode()
