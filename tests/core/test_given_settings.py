"""Which settings a client said."""

from dragoman.core.fields import GivenSettings
from dragoman.core.model import Settings

ASKED = GivenSettings("temperature", "seed", "logprobs")


def test_nothing_said() -> None:
    assert ASKED(Settings(top_p=0.5)) == []


def test_what_is_said_comes_in_order_and_false_is_said() -> None:
    assert ASKED(Settings(logprobs=False, temperature=0)) == [("temperature", 0), ("logprobs", False)]
