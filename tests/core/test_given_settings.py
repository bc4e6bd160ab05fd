"""Which settings a client sent."""

from dragoman.core.fields import GivenSettings
from dragoman.core.model import Settings

GIVEN = GivenSettings("temperature", "seed", "logprobs")


def test_no_setting_given() -> None:
    assert GIVEN(Settings(top_p=0.5)) == []


def test_given_settings_come_in_order_and_false_counts() -> None:
    assert GIVEN(Settings(logprobs=False, temperature=0)) == [("temperature", 0), ("logprobs", False)]
