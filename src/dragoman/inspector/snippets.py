"""One exchange as something to run elsewhere: curl, Python, `dragoman translate`."""

from __future__ import annotations

import shlex

from dragoman.gateway.observability.recording import RecordedMessage, Recording

# Headers that a client sets by itself, or that hold a masked secret
_SKIPPED = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})


def snippets(recording: Recording) -> dict[str, str]:
    """By name. The key is a variable: a recording holds none."""
    found = {"curl, as the client sent it": curl(recording.request, "$GATEWAY")}
    attempt = recording.answered
    if attempt and attempt.request.method:
        found["curl, as the upstream got it"] = curl(attempt.request, "")
        found["Python"] = _python(attempt.request)
    if attempt and attempt.protocol and recording.summary.client != attempt.protocol:
        found["dragoman translate"] = (
            f"dragoman inspect {recording.summary.id} --save exchange.exchange.json\n"
            f"dragoman translate request --from {recording.summary.client} --to {attempt.protocol}"
            " exchange.exchange.json"
        )
    return found


def curl(message: RecordedMessage, base: str) -> str:
    url = f'"{base}"{shlex.quote(message.url)}' if base else shlex.quote(message.url)
    lines = [f"curl -sS -X {message.method or 'POST'} {url}"]
    for name, value in message.headers.items():
        if name in _SKIPPED:
            continue
        if value == "***":
            scheme = "Bearer " if name == "authorization" else ""
            lines.append(f'-H "{name}: {scheme}$API_KEY"')
        else:
            lines.append(f"-H {shlex.quote(f'{name}: {value}')}")
    if message.body.data:
        lines.append(f"--data-binary {shlex.quote(message.body.text)}")
    return " \\\n  ".join(lines)


def _python(message: RecordedMessage) -> str:
    headers = {
        name: value for name, value in message.headers.items() if name not in _SKIPPED and value != "***"
    }
    return (
        "import json, os, urllib.request\n\n"
        f"body = json.loads({message.body.text!r})\n"
        f"headers = {headers!r} | {{'authorization': 'Bearer ' + os.environ['API_KEY']}}\n"
        f"request = urllib.request.Request({message.url!r}, json.dumps(body).encode(), headers)\n"
        "print(urllib.request.urlopen(request).read().decode())\n"
    )
