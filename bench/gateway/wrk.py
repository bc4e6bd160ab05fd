"""wrk, the load generator: one thread, so many connections, so many seconds; what it saw, as values."""

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.requests import BenchRequest

SCRIPT = """
wrk.method, wrk.path, wrk.headers = "POST", {path}, {{ {headers} }}
local requests, turn = {{}}, 0
function init()
  for body in io.lines({bodies}) do
    requests[#requests + 1] = wrk.format(nil, nil, nil, body)
  end
end
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
function done(summary, latency)
  local wrong = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format('\\n{{"count": %d, "seconds": %f, "p50": %f, "p99": %f, "wrong": %d}}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99), wrong))
end
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """Latencies are in microseconds."""

    count: int
    seconds: float
    p50: float
    p99: float
    wrong: int

    @property
    def rate(self) -> float:
        return self.count / self.seconds


class LoadFailed(Exception):
    """Under load something else than a good answer came, or nothing at all."""


def load(
    place: Path,
    request: BenchRequest,
    connections: int,
    seconds: float,
    others: Sequence[bytes] = (),
    pause: int = 0,
) -> Seen:
    """`others`: further bodies, in turn with that of the request; JSON needs no line breaks. `pause`: so many
    milliseconds a connection waits before each request."""
    bodies, script = place / "wrk.bodies", place / "wrk.lua"
    bodies.write_bytes(b"\n".join([request.body, *others]) + b"\n")
    headers = ", ".join(f"[{quote(name)}] = {quote(value)}" for name, value in request.all_headers.items())
    text = SCRIPT.format(bodies=quote(str(bodies)), path=quote(request.path), headers=headers)
    script.write_text(text + f"function delay() return {pause} end\n" * (pause > 0))
    command = ["wrk", "-t1", f"-c{connections}", "-d1h", "--timeout", "60s", "-s", str(script)]
    with subprocess.Popen(
        [*command, f"http://127.0.0.1:{request.port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as wrk:
        time.sleep(seconds)
        wrk.send_signal(signal.SIGINT)  # it stops and reports; its own clock counts whole seconds
        output, _ = wrk.communicate()
    if wrk.returncode:
        raise LoadFailed(output.strip())
    seen = Seen(**json.loads(output.strip().splitlines()[-1]))
    if seen.wrong or not seen.count:
        raise LoadFailed(f"{seen.wrong} of {seen.count} answers went wrong")
    return seen


def quote(text: str) -> str:
    """JSON's strings are Lua's, for what we send."""
    return json.dumps(text)
