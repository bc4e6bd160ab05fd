"""Credentials that expire: fetched once for all who wait, renewed early, with a clear error on failure."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable

import pytest

from dragoman.core.credentials import Credential
from dragoman.core.transport import CredentialFailed
from dragoman.credentials import RefreshedCredential
from waiting import wait_until

LIFE = 1000.0


class Issuer:
    """Gives the tokens t1, t2, … that live for 1000 seconds of its clock, or what `outcome` does."""

    def __init__(self) -> None:
        self.now, self.count = 100.0, 0
        self.outcome: Callable[[], object] = lambda: None
        self.source = RefreshedCredential(self.issue, Credential(secret="app-secret"), 30.0, lambda: self.now)

    def issue(self) -> Credential:
        self.count += 1
        number, begun = self.count, self.now
        self.outcome()
        return Credential(token=f"t{number}", expires=begun + LIFE)

    def wait(self) -> str:
        return asyncio.run(self.source.wait()).token

    def current(self) -> str | None:
        found = self.source.current()
        return found.token if found else None


def refuse() -> None:
    raise OSError("the token endpoint\nanswered 400")


def test_the_first_request_waits_and_the_next_ones_do_not() -> None:
    issuer = Issuer()
    assert issuer.current() is None
    assert issuer.wait() == "t1"
    assert (issuer.current(), issuer.count) == ("t1", 1)


def test_it_is_renewed_at_four_fifths_of_its_life_while_requests_take_the_old_one() -> None:
    issuer = Issuer()
    issuer.wait()
    issuer.now += 0.79 * LIFE
    assert (issuer.current(), issuer.count) == ("t1", 1)
    held = threading.Event()
    issuer.outcome = held.wait
    issuer.now += 0.02 * LIFE
    assert issuer.current() == "t1"
    assert issuer.current() == "t1"
    held.set()
    wait_until(lambda: issuer.current() == "t2")
    assert issuer.count == 2


def test_a_failed_renewal_is_tried_again_after_a_pause_until_the_credential_expires() -> None:
    issuer = Issuer()
    issuer.wait()
    issuer.outcome = refuse
    issuer.now += 0.81 * LIFE
    assert issuer.current() == "t1"
    wait_until(lambda: issuer.count == 2 and not issuer.source._threads)
    assert (issuer.current(), issuer.count) == ("t1", 2)
    issuer.now += 6
    assert issuer.current() == "t1"
    wait_until(lambda: issuer.count == 3 and not issuer.source._threads)
    issuer.now = 100.0 + LIFE - 5  # too late to be sure that it arrives in time
    assert issuer.current() is None


def test_a_failure_says_why_and_is_not_repeated_at_once() -> None:
    issuer = Issuer()
    issuer.outcome = refuse
    for _ in range(3):
        with pytest.raises(CredentialFailed, match="no credential: the token endpoint answered 400"):
            issuer.wait()
    assert issuer.count == 1
    issuer.outcome = lambda: None
    issuer.now += 6
    assert issuer.wait() == "t2"


def test_one_that_hangs_ends_with_an_error_and_is_used_where_it_comes_late() -> None:
    issuer = Issuer()
    held = threading.Event()
    issuer.outcome = held.wait
    issuer.source._timeout = 0.01
    with pytest.raises(CredentialFailed, match=r"no credential: no answer within 0.01 s"):
        issuer.wait()
    with pytest.raises(CredentialFailed, match=r"no credential: no answer within 0.01 s"):
        issuer.wait()  # at once
    assert issuer.count == 1
    held.set()
    wait_until(lambda: issuer.current() == "t1")


def test_threads_that_hang_are_few() -> None:
    issuer = Issuer()
    held = threading.Event()
    issuer.outcome = held.wait
    issuer.source._timeout = 0.01
    for _ in range(10):
        with pytest.raises(CredentialFailed):
            issuer.wait()
        issuer.now += 6
    assert issuer.count == 3
    held.set()


def test_one_fetch_serves_all_who_wait_and_one_who_leaves_does_not_stop_it() -> None:
    issuer = Issuer()
    held = threading.Event()
    issuer.outcome = held.wait

    async def many() -> list[Credential]:
        waiting = [asyncio.ensure_future(issuer.source.wait()) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        held.set()
        return await asyncio.gather(*waiting[1:])

    assert [each.token for each in asyncio.run(many())] == ["t1"] * 4
    assert issuer.count == 1


def test_one_that_was_refused_is_fetched_anew_unless_it_is_new() -> None:
    issuer = Issuer()
    issuer.wait()
    assert issuer.source.note_refusal()
    assert issuer.current() == "t1"
    issuer.now += 60
    assert issuer.source.note_refusal()
    assert issuer.current() is None
    assert issuer.wait() == "t2"
    assert not Credential(key="k").note_refusal()


def test_no_secret_is_shown_and_all_are_known() -> None:
    issuer = Issuer()
    issuer.wait()
    shown = repr(issuer.source)
    assert "t1" not in shown
    assert "app-secret" not in shown
    assert set(issuer.source.secrets()) == {"app-secret", "t1"}
    whole = Credential(key="k1", id="i1", secret="s1", session="n1", region="eu-1", token="t1", expires=5)
    assert repr(whole) == (
        "Credential(key=***, id=***, secret=***, session=***, token=***, region='eu-1', expires=5)"
    )
    assert set(whole.secrets()) == {"k1", "i1", "s1", "n1", "t1"}


def same() -> Credential:
    return Credential(token="t")


def test_it_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(RefreshedCredential(same, Credential())))
    assert asyncio.run(copy.wait()).token == "t"
