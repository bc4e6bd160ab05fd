"""The MCP conformance suite against our MCP client.

    python tests/compliance/mcp_client.py FOLDER    runs the suite: FOLDER has it in its node_modules
    python tests/compliance/mcp_client.py URL       the client, which the suite runs with its server's address

`npm install --prefix FOLDER @modelcontextprotocol/conformance` installs it, and it needs Node 22. All is on
loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dragoman.mcp_client.oauth import OAuth
from dragoman.mcp_client.session import McpSession

# Left out: auth/2025-03-26-oauth-metadata-backcompat, whose metadata names an issuer that is not the server's
# origin (RFC 8414 says to refuse it, and the official client does), and three that want other grants.
SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/resource-mismatch",
    "auth/pre-registration",
    "auth/client-credentials-basic",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/2025-03-26-oauth-endpoint-fallback",
)


def visit(url: str) -> str:
    """A user who allows everything."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection.getresponse().headers["location"]


async def client(url: str, scenario: str, context: dict[str, Any]) -> None:
    """What the suite expects of a client: to connect, and to call the tools that there are."""
    given = {name: context[name] for name in ("client_id", "client_secret") if name in context}
    oauth = OAuth(
        None if "client-credentials" in scenario else visit,
        "http://localhost:3000/callback",
        client_metadata="https://conformance-test.local/client-metadata.json",
        **given,
    )
    session = McpSession(
        "suite",
        url,
        oauth=oauth if scenario.startswith("auth/") else None,
        elicit=lambda question, schema: {},
        seconds=30,
    )
    tools = await session.open()
    try:
        for tool in tools:
            names = tool.input_schema.get("properties", {})
            await session.call(tool.name, {name: number for number, name in enumerate(names, 2)})
    finally:
        await session.close()


def suite(folder: Path) -> int:
    path = f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("conformance", path=path)
    if program is None:
        print(f"compliance: no MCP conformance suite in {folder}; our client was not checked with it")
        return 0
    command = f"{sys.executable} {Path(__file__).resolve()}"
    failed: list[str] = []
    for scenario in SCENARIOS:
        options = ["client", "--command", command, "--scenario", scenario, "--timeout", "60000"]
        environ = {**os.environ, "PATH": path, "MCP_CONFORMANCE_SCENARIO": scenario}
        done = subprocess.run([program, *options], env=environ, capture_output=True, text=True, check=False)
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} {scenario}", flush=True)
        if done.returncode:
            failed.append(scenario)
            print(done.stdout[-3000:], done.stderr[-2000:])
    print(f"{len(SCENARIOS) - len(failed)} of {len(SCENARIOS)} scenarios of MCP conformance")
    return 1 if failed else 0


if __name__ == "__main__":
    if "://" in sys.argv[1]:
        asyncio.run(
            client(
                sys.argv[1],
                os.environ["MCP_CONFORMANCE_SCENARIO"],
                json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"),
            )
        )
    else:
        sys.exit(suite(Path(sys.argv[1])))
