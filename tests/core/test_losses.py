"""Losses: in order, each once, under the source's names; strict mode refuses."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from dragoman.core.errors import LossError
from dragoman.core.loss_codes import CODES
from dragoman.core.losses import Loss, Losses, Spelling, as_cache_key

SOURCE = Path(dragoman.__file__).parent
SENTENCES = re.compile(r"[A-Z…][^;]*[.…]")


def some() -> Losses:
    losses = Losses()
    losses.dropped("top_k", "No such setting.")
    losses.changed("messages[1]", "It was moved.")
    losses.invented("max_tokens", "required")
    losses.dropped("top_k", "No such setting.")
    return losses


def test_the_same_loss_twice_is_one() -> None:
    assert len(some()) == 3
    assert [str(loss) for loss in some()] == [
        "dropped top_k: No such setting.",
        "changed messages[1]: It was moved.",
        "invented max_tokens: required",
    ]


def test_another_reason_is_another_loss() -> None:
    losses = some()
    losses.extend([Loss("dropped", "top_k", "other reason"), Loss("changed", "messages[1]", "It was moved.")])
    assert len(losses) == 4


def test_settings_are_named_as_the_source_spells_them() -> None:
    losses = some()
    losses.respell(
        Spelling({"top_k": "generationConfig.topK"}), None, [Loss("dropped", "x", "reported first")]
    )
    assert [loss.where for loss in losses] == ["x", "generationConfig.topK", "messages[1]", "max_tokens"]


SPELLED = {
    "the first that is there": ("user", "user"),
    "the last where none is there": ("effort", "reasoning"),
    "the end of a path": ("tools[0].strict", "tools[0].function.strict"),
    "another end": ("functions[0].strict", "functions[0].strict"),
    "nothing known": ("tools[0].deferred", "tools[0].deferred"),
}


@pytest.mark.parametrize("where, expected", SPELLED.values(), ids=SPELLED)
def test_a_place_is_one_that_the_source_has(where: str, expected: str) -> None:
    source = {"user": "u", "tools": [{"function": {"strict": True}}], "functions": [{"strict": True}]}
    spelling = {"user": "safety_identifier|user", "effort": "reasoning_effort|reasoning"}
    losses = Losses()
    losses.dropped(where, "why", "field.unknown")
    losses.respell(Spelling({**spelling, ".strict": ".function.strict|.strict"}), source)
    assert [loss.where for loss in losses] == [expected]


def test_strict_mode_refuses_what_is_lost() -> None:
    with pytest.raises(
        LossError, match=r"top_k dropped: No such setting\. messages\[1\] changed: It was moved\.$"
    ) as caught:
        some().refuse()
    assert [loss.kind for loss in caught.value.losses] == ["dropped", "changed"]


def test_an_invention_loses_nothing() -> None:
    losses = Losses()
    losses.invented("max_tokens", "required")
    losses.refuse()


def test_every_material_loss_says_what_to_do():
    assert [code for code, row in CODES.items() if row.severity == "material" and not row.advice] == []


def test_a_few_losses_are_spelled_once_unless_the_source_decides() -> None:
    spelling = Spelling({"n": "count", "user": "user|safety_identifier"})
    alike, other = [Loss("dropped", "n", "why")], [Loss("dropped", "user", "why")]
    first, again = ([*spelling.spelled(alike)] for _ in range(2))
    assert first[0].where == "count"
    assert first[0] is again[0]
    wheres = [next(iter(spelling.spelled(other, source))).where for source in ({"user": "u"}, {})]
    assert wheres == ["user", "safety_identifier"]


FEW = {
    "some": ([Loss("dropped", "a", "b")] * 3, True),
    "many": ([Loss("dropped", "a", "b")] * 9, False),
    "a long name of a field": ([Loss("dropped", "a" * 3000, "b")], False),
    "a long reason": ([Loss("dropped", "a", "b" * 3000)], False),
}


@pytest.mark.parametrize(("losses", "is_few"), FEW.values(), ids=FEW)
def test_which_losses_caches_may_hold(losses: list[Loss], is_few: bool) -> None:
    """Names of fields are as long as a client likes."""
    assert as_cache_key(losses) == (tuple(losses) if is_few else None)


def _reasons() -> Iterator[tuple[str, str]]:
    """Every reason that the source writes where it reports a loss, `…` for what is filled in."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr="dropped" | "changed" | "invented"), args=[_, why, *_]):
                    if isinstance(why, ast.Constant | ast.JoinedStr):
                        text = "".join(
                            str(piece.value) if isinstance(piece, ast.Constant) else "…"
                            for piece in (why.values if isinstance(why, ast.JoinedStr) else [why])
                        )
                        yield f"{path.name}:{node.lineno}", text


def test_reasons_are_sentences() -> None:
    """Users read them: a capital, a full stop, and another sentence instead of a semicolon."""
    reasons = list(_reasons())
    assert len(reasons) > 200
    assert [(at, text) for at, text in reasons if not SENTENCES.fullmatch(text)] == []
