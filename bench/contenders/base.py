"""What a contender is: a way to translate a request body, and a way to translate a stream, for some pairs."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import msgspec

TranslateRequest = Callable[[bytes], bytes]
TranslateStream = Callable[[list[bytes]], bytes]


class Pair(NamedTuple):
    client: str
    upstream: str


class JsonText(NamedTuple):
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def print_standard(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


STANDARD = JsonText(json.loads, print_standard)
FAST = JsonText(msgspec.json.decode, msgspec.json.encode)


@dataclass(frozen=True, slots=True)
class Contender:
    """`request(pair)` and `stream(pair, body)` prepare one translation, outside the measured time.

    A stream is prepared with the request that it answers. Both give None for a pair that the contender
    does not do in one step, and raise ImportError when the contender is not installed.
    """

    name: str
    package: str
    request: Callable[[Pair], TranslateRequest | None]
    stream: Callable[[Pair, bytes], TranslateStream | None]

    @property
    def title(self) -> str:
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return f"{self.package}: missing"
