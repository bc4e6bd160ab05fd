"""What one key holds never refuses another key that holds less than its part of the memory.

All keys together hold no more than the limit.

Keys take and give back memory in any order, as bodies, messages and answers do. What has no key yet (heads,
first bytes) is held beside them.
"""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.http.memory_budget import MemoryBudget, MemoryShare

LIMIT = 12_000
STEP = st.tuples(st.integers(0, 3), st.integers(-3_000, 3_000))


def divided(count: int) -> tuple[MemoryBudget, tuple[MemoryShare, ...]]:
    budget = MemoryBudget(LIMIT)
    shares = tuple(MemoryShare(budget) for _ in range(count))
    budget.divide(shares)
    return budget, shares


def take(share: MemoryShare, size: int) -> None:
    """As a body does: it is refused where the memory is full, and gives back no more than it took."""
    if size < 0:
        share.used += max(size, -share.used)
    elif share.used < share.limit:
        share.used += size


@given(count=st.integers(2, 4), steps=st.lists(STEP, max_size=60), unknown=st.integers(0, LIMIT // 2))
def test_a_key_below_its_part_is_never_refused(count: int, steps: list[tuple[int, int]], unknown: int):
    budget, shares = divided(count)
    budget.used += unknown
    part = LIMIT // 2 // count
    for number, size in steps:
        share = shares[number % count]
        if share.used < part:
            assert share.used < share.limit
        take(share, size)
        assert budget.used == unknown + sum(each.used for each in shares)
    largest = max((size for _, size in steps), default=0)
    # each key may pass its limit once, by what it takes at a time
    assert budget.used <= LIMIT + count * max(largest, 0)


@given(steps=st.lists(STEP, max_size=60), small=st.integers(1, 50))
def test_together_they_hold_no_more_than_the_limit(steps: list[tuple[int, int]], small: int):
    budget, shares = divided(4)
    for number, size in steps:
        for _ in range(abs(size) // small):
            take(shares[number], small if size > 0 else -small)
    assert budget.used <= LIMIT + 4 * small


@given(
    steps=st.lists(STEP, max_size=30),
    later=st.lists(STEP, max_size=30),
    kept=st.sets(st.integers(0, 3), min_size=2),
)
def test_other_keys_after_a_reload(
    steps: list[tuple[int, int]], later: list[tuple[int, int]], kept: set[int]
):
    """Requests of a key that was removed end as they began."""
    budget, shares = divided(4)
    for number, size in steps:
        take(shares[number], size)
    remaining = (*(shares[number] for number in sorted(kept)), MemoryShare(budget))
    budget.divide(remaining)
    for number, size in later:
        share = remaining[number % len(remaining)]
        if share.used < share.part:
            assert share.used < share.limit
        take(share, size)
    for share in (*shares, *remaining):
        share.used = 0
    assert (budget.used, budget.shared, budget.beyond) == (0, 0, 0)


def test_a_hoarder_takes_half_and_its_own_part():
    _, (first, second) = divided(2)
    while first.used < first.limit:
        first.used += 10
    assert first.used == LIMIT // 2 + LIMIT // 4
    assert second.used < second.limit == LIMIT // 4
