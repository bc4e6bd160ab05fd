"""What the clients of a soak will do: every client protocol on every upstream, well and badly."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman import build_tool_results, parse_tool_calls
from dragoman.core import jsontext
from dragoman.core.losses import Losses
from dragoman.core.model import Message, Request, Text, ToolDeclaration, Wire
from dragoman.protocols import codec, names
from spoken import echoed

CLIENTS = names()
# provider: (its protocol, its dialect, the model that clients ask for)
PROVIDERS = {
    "chat": ("openai-chat", "", "gpt-4.1"),
    "responses": ("openai-responses", "", "gpt-5"),
    "claude": ("anthropic", "", "claude-sonnet-4-5"),
    "google": ("gemini", "", "gemini-3-pro"),
    "steps": ("gemini-interactions", "", "gemini-3-pro"),
    "text": ("openai-chat", "hermes", "text-model"),
}
FAULTS = (
    "429", "500", "529", "400", "429 x1", "500 x1", "drop x1", "cut", "cut", "cut 1", "cut 2", "malformed",
    "malformed", "fail", "empty", "garbage", "leak", "late", "pause", "hang", "stall",
)  # fmt: skip
QUICK = tuple(fault for fault in FAULTS if fault not in ("hang", "stall"))  # those wait for timeouts
SOCKETS = 20_000_000  # the number of the first request over WebSocket
FAULTY, LEAVING = 0.05, 0.05  # shares of the exchanges
Leaves = Literal["", "in mid-request", "before the answer", "in mid-stream"]
WEATHER = ToolDeclaration(
    "get_weather",
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


class Plan(Struct, frozen=True, kw_only=True):
    """One exchange. `turns`: the call and the result that follow its question, as the client sends them.
    `continues`: the id of the response that the turns follow, instead of the question."""

    number: int
    client: str
    provider: str
    stream: bool
    calls: bool
    fault: str = ""
    leaves: Leaves = ""
    leaves_after: float = 0.0  # seconds until it leaves
    turns: tuple[Wire, ...] = ()
    continues: str = ""

    @property
    def model(self) -> str:
        """Nobody else asks for it, so that both ends can tell this exchange from all others."""
        return f"{PROVIDERS[self.provider][2]}-x{self.number}"

    @property
    def forwarded(self) -> bool:
        protocol, dialect, _ = PROVIDERS[self.provider]
        return protocol == self.client and not dialect

    @property
    def path(self) -> str:
        path = codec(self.client).http.path(f"{self.provider}:{self.model}", self.stream)
        return f"/v1{path}" if self.client.startswith("openai-") else path

    @property
    def body(self) -> bytes:
        mark = f" [[fault: {self.fault} run {self.number}]]" if self.fault else ""
        question = "what is the weather in Oslo?" if self.calls else "say something."
        prompt = Message("user", (Text(f"Number {self.number}: {question}{mark}"),))
        request = Request(f"{self.provider}:{self.model}", (prompt,), tools=(WEATHER,), stream=self.stream)
        protocol_codec = codec(self.client)
        wire = protocol_codec.encode_request(request, Losses())
        if self.continues:
            wire["previous_response_id"] = self.continues
        asked = [] if self.continues else wire[protocol_codec.turns]
        return jsontext.encode({**wire, protocol_codec.turns: [*asked, *self.turns]})


def plans(count: int, seed: int, first: int = 0, faults: tuple[str, ...] = FAULTS) -> Iterator[Plan]:
    """Every pair of protocols in turn, whole and streamed; faults and departures at random."""
    random = Random(seed)
    pairs = [(client, provider) for client in CLIENTS for provider in PROVIDERS]
    for number in range(first, first + count):
        client, provider = pairs[number % len(pairs)]
        draw = random.random()
        fault = random.choice(faults) if draw < FAULTY else ""
        leaves: Leaves = ""
        stream = random.random() < 0.5
        if FAULTY <= draw < FAULTY + LEAVING:
            leaves = random.choice(("in mid-request", "before the answer", "in mid-stream"))
            stream = stream or leaves == "in mid-stream"
            fault = random.choice(("", "", "", "slow", "stall" if stream else "hang"))
        yield Plan(
            number=number, client=client, provider=provider, stream=stream, calls=random.random() < 0.7,
            fault=fault, leaves=leaves, leaves_after=random.uniform(0, 0.1),
        )  # fmt: skip


def socket_plans(count: int, seed: int, first: int, faults: tuple[str, ...] = FAULTS) -> Iterator[Plan]:
    """Those of Responses over WebSocket: streamed, on every upstream."""
    providers = tuple(PROVIDERS)
    for plan in plans(count, seed, SOCKETS + first, faults):
        leaves = "before the answer" if plan.leaves == "in mid-request" else plan.leaves
        provider = providers[plan.number % len(providers)]
        fault = "stall" if plan.fault == "hang" and leaves == "in mid-stream" else plan.fault
        yield replace(
            plan, client="openai-responses", provider=provider, stream=True, leaves=leaves, fault=fault
        )


def good(count: int, first: int = 0) -> Iterator[Plan]:
    """Exchanges with neither faults nor departures."""
    return (plan for plan in plans(count, 0, first) if not plan.fault and not plan.leaves)


def next_turn(plan: Plan, number: int, reply: Wire) -> Plan | None:
    """The same client with results for the calls that it got, if it got any."""
    calls = parse_tool_calls(reply, plan.client)
    results = build_tool_results(calls, [f"sunny, number {number}" for _ in calls], plan.client)
    if not calls:
        return None
    return Plan(
        number=number, client=plan.client, provider=plan.provider, stream=plan.stream, calls=True,
        turns=(*echoed(plan.client, reply), *results),
    )  # fmt: skip
