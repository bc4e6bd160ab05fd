"""The pages read as they should: `tools/prose.py` says how that is measured."""

from tools.prose import Measures, faults, measure, pages


def test_the_totals_hold():
    assert faults(pages()) == []


def test_code_and_addresses_do_not_count():
    text = "You see; it.\n```\nyou; you;\n```\n`a; b` [link](x;y)\n| your | cell |\n"
    assert measure(text) == Measures(words=7, semicolons=1, reader=2, table_words=2)


def test_each_measure_can_fail():
    assert (
        len(faults({"docs/how-to/x.md": Measures(words=1000, semicolons=9, reader=1, table_words=400)})) == 3
    )
