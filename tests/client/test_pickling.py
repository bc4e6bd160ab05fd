"""What the client gives and takes goes to another process: with pickle, and with cloudpickle."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import dragoman
from dragoman import Exchange, Provider, generate, run
from dragoman.core.credentials import Credential

cloudpickle = pytest.importorskip("cloudpickle")
MINE: dict[str, Any] = {
    "protocol": "anthropic",
    "base_url": "http://x",
    "api_key": "k",
    "headers": {"A": "b"},
    "dialect": "hermes",
    "profiles": {"*": {"context_window": 9}},
}
BODY = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
REPLY = {"candidates": [{"content": {"parts": [{"text": "ho"}]}, "finishReason": "STOP"}]}


def exchange() -> Exchange:
    made = Exchange("anthropic", "gemini", reply_created=1)
    made.request(BODY)
    return made


def failed(**more: Any) -> Exception:
    def local() -> str:
        "A tool that no other process has."
        return ""

    with pytest.raises(dragoman.DragomanError) as caught:
        run("Hello [[fault: 401]]", "demo:any", [local], **more)
    return caught.value


MAKERS = {
    "a provider": lambda: Provider("mine", **MINE),
    "a model": lambda: Provider("mine", **MINE).model("m"),
    "a result": lambda: generate("hi", "demo:any"),
    "a run": lambda: run("hi", "demo:any"),
    "an exchange": lambda: Exchange("anthropic", "gemini"),
    "an exchange after its request": exchange,
    "an error of a run": failed,
    "a wire error": lambda: dragoman.WireError("anthropic", "a.b", "no"),
    "a loss error": lambda: dragoman.LossError([]),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_it_arrives(name: str, dumps: Any) -> None:
    made = MAKERS[name]()
    arrived = pickle.loads(dumps(made))
    assert (type(arrived), str(arrived)) == (type(made), str(made)) or name.startswith("an exchange")
    match arrived:
        case Exchange():
            assert arrived.response(REPLY) == made.response(REPLY)
        case Provider():
            assert (arrived.codec, repr(arrived.dialect)) == (made.codec, repr(made.dialect))
            assert (arrived.credentials, arrived.profile("m").context_window) == (Credential(key="k"), 9)
        case dragoman.UpstreamError():
            ended: Any = vars(arrived)["run"]
            assert (ended.stopped, [each.name for each in ended.tools]) == ("error", ["local"])
        case _:
            pass


def test_a_key_of_the_environment_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "secret-of-this-machine")
    data = pickle.dumps(Provider("groq"))
    assert b"secret-of-this-machine" not in data
    monkeypatch.setenv("GROQ_API_KEY", "secret-of-the-other")
    assert pickle.loads(data).credentials.key == "secret-of-the-other"
