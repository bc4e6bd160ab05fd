"""Weighted round-robin: the spread is even at every moment."""

from collections import Counter

from dragoman.gateway.upstreams.balancing import WeightedRoundRobin


def test_weights_are_met_exactly_in_every_round():
    robin = WeightedRoundRobin([("a", 5), ("b", 1), ("c", 1)])
    assert "".join([robin.take() or "-" for _ in range(7)]) == "aabacaa"
    assert Counter(robin.take() for _ in range(70)) == {"a": 50, "b": 10, "c": 10}


def test_what_is_left_out_gives_its_share_to_the_others():
    robin = WeightedRoundRobin([("a", 2), ("b", 1), ("c", 1)])
    assert Counter(robin.take({"a"}) for _ in range(10)) == {"b": 5, "c": 5}
    assert robin.take({"a", "b", "c"}) is None


def test_what_was_taken_out_of_turn_waits_longer_for_the_next():
    robin = WeightedRoundRobin([("a", 1), ("b", 1)])
    robin.count("a")
    assert [robin.take() for _ in range(3)] == ["b", "a", "b"]
