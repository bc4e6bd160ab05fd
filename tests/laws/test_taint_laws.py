"""Each field of each recording of the tree arrives at every other protocol or is reported."""

from __future__ import annotations

import pytest

from laws.taint import Sample, check, lost, of_the_tree
from spoken import SPOKEN


@pytest.mark.parametrize("protocol", [*SPOKEN, "bedrock-converse"])
def test_each_field_arrives_or_is_reported(protocol: str) -> None:
    found = [*check(of_the_tree(protocol))]
    assert {"arrives", "reported"} <= {finding.fate for finding in found}
    assert lost(found) == []


def test_what_is_lost_is_found() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "stream_options": {"include_usage": 1},
    }
    fates = {each.field: each.fate for each in check([Sample("request", "openai-chat", body)])}
    assert fates["messages[].content"] == "arrives"
    assert fates["x_tainted"] == "reported"
    assert fates["stream_options.include_usage"] == "lost"
