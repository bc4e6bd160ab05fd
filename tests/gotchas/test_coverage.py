"""Each known failure, G01 to G125, has a case with its id and a row in docs/reference/known-failures.md."""

from __future__ import annotations

from tools.known_failures import COUNT, covered, listed


def test_every_known_failure_has_a_case() -> None:
    found = covered()
    missing = {number for number in range(1, COUNT + 1) if number not in found}
    assert [f"G{number:02}" for number in sorted(missing)] == []


def test_the_page_lists_every_known_failure_with_its_test() -> None:
    """`python tools/known_failures.py` fills in the tests."""
    found, page = covered(), listed()
    assert list(page) == list(range(1, COUNT + 1))
    wrong = {
        f"G{number}": test for number, test in page.items() if number in found and test not in found[number]
    }
    assert wrong == {}
