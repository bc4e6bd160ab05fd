"""The page at `/` for browsers: the inspector, and a command for each agent with this gateway's address.

It is plain HTML. The form asks for the same page again, with a model in every command. Who may not see the
names of models, because a key is needed or another site asks, gets the page without them.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path
from string import Template

from dragoman import __version__
from dragoman.cli.agents import AGENTS, command_line
from dragoman.cli.welcome import model_for, sdk_variables
from dragoman.gateway.admission.authentication import is_cross_site_request
from dragoman.gateway.app import Gateway
from dragoman.gateway.config import Config
from dragoman.gateway.request import GatewayRequest
from dragoman.gateway.upstreams.routing import served_names
from dragoman.serving.routes import Route

ROUTE = Route("GET", "/", "page", requires=("accept",))  # which probes of load balancers do not send
_INSPECTOR_ROUTE = Route("GET", "/inspect", "page")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"vary", b"accept"),
]
_PLACEHOLDER = "MODEL"


def mount_pages(gateway: Gateway) -> None:
    """Adds this page, and the inspector to a gateway that records."""
    gateway.add_routes([ROUTE], LandingPage(gateway).answer)
    if gateway.recorder:
        from dragoman.inspector.server import mount_inspector

        mount_inspector(gateway)
    else:
        gateway.add_routes([_INSPECTOR_ROUTE], _say_how_to_inspect)


async def _say_how_to_inspect(request: GatewayRequest) -> None:
    problem = "The inspector is off. Start the gateway with: dragoman serve --inspect\n"
    await request.writer.whole(404, problem.encode(), _HEADERS, b"text/plain; charset=utf-8")


class LandingPage:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def answer(self, request: GatewayRequest) -> None:
        if "text/html" not in request.headers.get("accept", ""):
            await request.writer.json(200, {"status": "ok", "dragoman": __version__})
            return
        config = self._gateway.config  # of now: it may be reloaded
        shown = not config.keys and not is_cross_site_request(request.headers)
        html = render(config, _url(config, request), request.query.get("model", ""), shown)
        await request.writer.whole(200, html.encode(), _HEADERS, b"text/html; charset=utf-8")


def render(config: Config, url: str, model: str, names_shown: bool) -> str:
    """`model`: the name in the commands; empty: what each agent should ask for, as far as it may be told."""
    commands = [_command(config, name, url, model, names_shown) for name in AGENTS]
    names = [name for name in served_names(config) if "*" not in name] if names_shown else []
    return _page().substitute(
        version=escape(__version__),
        url=escape(url),
        inspector=_INSPECTOR if config.inspector.enabled else _NO_INSPECTOR,
        access=_KEYS if config.keys else "",
        model=escape(model, quote=True),
        names="".join([f'<option value="{escape(name, quote=True)}">' for name in names]),
        agents="".join(commands),
        sdks=escape(sdk_variables(url)),
    )


_INSPECTOR = '<a class="button" href="/inspect">Open the inspector</a>'
_NO_INSPECTOR = "<p>The inspector is off. Start the gateway with <code>dragoman serve --inspect</code>.</p>"
_KEYS = "<p>Put your key of this gateway into the variable <code>DRAGOMAN_KEY</code>.</p>"


def _command(config: Config, name: str, url: str, model: str, names_shown: bool) -> str:
    agent = AGENTS[name]
    wanted = model or (model_for(agent, config) if names_shown else _PLACEHOLDER)
    text = command_line(agent, url, "$DRAGOMAN_KEY" if config.keys else "any", wanted or None)
    if wanted == "":
        text = command_line(agent, url, "any", _PLACEHOLDER)
    note = f"<p>Also: {escape(agent.note)}.</p>" if agent.note else ""
    install = f"<p>To install it: <code>{escape(agent.install)}</code></p>"
    return f"<h3>{escape(agent.title)}</h3><pre tabindex=0>{escape(text)}</pre>{note}{install}"


def _url(config: Config, request: GatewayRequest) -> str:
    """The address by which the browser found this gateway."""
    secure = bool(config.tls_cert) or request.headers.get("x-forwarded-proto") == "https"
    host = request.headers.get("host") or f"{config.host}:{config.port}"
    return f"{'https' if secure else 'http'}://{host}"


@cache
def _page() -> Template:
    return Template(Path(__file__).with_name("landing.html").read_text("utf-8"))
