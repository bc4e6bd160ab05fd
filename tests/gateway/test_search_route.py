"""`POST /v1/alpha/search`, as Codex asks: search, open and find in what was found, over the backends here."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.core import jsontext
from gateway.canned import Answer, Canned, chat, provider
from gateway.plain import Got, send
from gateway.running import running
from gateway.stands import Stand, gateway

PAGE = (
    b"<title>Paris</title><h1>Paris</h1>"
    + b"".join(b"<p>Line %d</p>" % n for n in range(300))
    + b"<p>18 degrees</p>"
)


class Site:
    """Speaks the API of SearXNG, and has one page."""

    def __init__(self) -> None:
        self.queries: list[bytes] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, give: Any) -> None:
        host = dict(scope.get("headers", ())).get(b"host", b"").decode()
        if scope["type"] == "http" and scope["path"] == "/search":
            self.queries.append(scope["query_string"])
            found = [{"url": f"http://{host}/p", "title": "Paris", "content": "The weather of Paris"}]
            answer = Answer(200, jsontext.encode({"results": found}))
        else:
            answer = Answer(200, PAGE, content_type="text/html")
        await Canned(answer)(scope, receive, give)


def tables(url: str) -> str:
    fetch = f'[hosted.web_fetch]\nallowed_hosts = ["{url.removeprefix("http://")}"]\n'
    return f'[hosted.web_search]\nbackend = "searxng"\nurl = "{url}"\n{fetch}'


@contextlib.contextmanager
def searching(more: str = "") -> Iterator[tuple[Stand, Site, str]]:
    site = Site()
    with (
        running(Canned(Answer(200, chat("x")))) as up,
        running(site) as url,
        gateway(provider("one", up) + tables(url) + more) as stand,
    ):
        yield stand, site, url


def asked(stand: Stand, commands: Any, session: str = "s", **more: Any) -> Got:
    body = {"id": session, "model": "one:m", "commands": commands, **more}
    return send(stand.url, "POST", "/v1/alpha/search", jsontext.encode(body))


def test_search_open_and_find() -> None:
    with searching() as (stand, _, url):
        found = asked(stand, {"search_query": [{"q": "paris weather"}]})
        (name,) = re.findall(r"\[(turn\w+)\]", found.json["output"])
        opened = asked(stand, {"open": [{"ref_id": name}]})
        further = asked(
            stand, {"open": [{"ref_id": name, "lineno": 500}], "time": [{"utc_offset": "+02:00"}]}
        )
        hits = asked(stand, {"find": [{"ref_id": name, "pattern": "18 DEGREES"}]})
        record = stand.last()
    assert name == "turn0search0"
    assert (found.status, found.json["results"][0]["url"]) == (200, f"{url}/p")
    assert "[turn1view0]" in opened.json["output"]
    assert "Line 1" in opened.json["output"]
    assert "more lines; open it with lineno 201" in opened.json["output"]
    assert "18 degrees" not in opened.json["output"]
    assert "18 degrees" in further.json["output"]
    assert "+02:00" in further.json["output"]
    assert re.search(r"L\d+: 18 degrees", hits.json["output"])
    assert record["hosted"] == {"web_fetch": 1}  # the last request looked into a page


def test_the_domains_of_the_client_hold() -> None:
    with searching() as (stand, site, _):
        filters = {"filters": {"allowed_domains": ["a.example"]}}
        query = {"search_query": [{"q": "x", "domains": ["b.a.example", "evil.example"]}]}
        asked(stand, query, settings=filters)
    with searching() as (stand, _, url):
        opened = asked(stand, {"open": [{"ref_id": f"{url}/p"}]}, input=f"Read {url}/p", settings=filters)
    assert "is not one of the allowed domains" in opened.json["output"]
    assert b"site%3Ab.a.example" in site.queries[0]
    assert b"evil" not in site.queries[0]


# commands -> what the model reads
TEXTS: dict[str, tuple[Any, str]] = {
    "what is not offered": ({"weather": [{"location": "Paris"}]}, "weather is not offered here"),
    "an unknown name": ({"open": [{"ref_id": "turn9search9"}]}, "There is no 'turn9search9'"),
    "an address that nobody named": ({"open": [{"ref_id": "http://127.0.0.1:1/x"}]}, "is not in"),
    "no query": ({"search_query": [{}]}, "needs a query"),
    "a strange time zone": ({"time": [{"utc_offset": "soon"}]}, "no offset"),
    "nothing": ({}, "Nothing was asked"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_what_goes_wrong_is_text_for_the_model(case: str) -> None:
    commands, text = TEXTS[case]
    with searching() as (stand, _, _):
        got = asked(stand, commands)
    assert got.status == 200
    assert text in got.json["output"]


def test_an_address_of_the_conversation_is_opened_and_sessions_are_apart() -> None:
    with searching() as (stand, _, url):
        opened = asked(stand, {"open": [{"ref_id": f"{url}/p"}]}, input=f"What does {url}/p say?")
        name = asked(stand, {"search_query": [{"q": "x"}]}, "a").json["output"]
        other = asked(stand, {"open": [{"ref_id": "turn0search0"}]}, "b")
    assert "Line 1" in opened.json["output"]
    assert "turn0search0" in name
    assert "There is no" in other.json["output"]


def test_workers_of_one_store_know_the_names_of_each_other(tmp_path: Path) -> None:
    store = f'[store]\nurl = "sqlite:///{tmp_path}/store.db"\n'
    with searching(store) as (first, _, url), gateway(provider("one", url) + tables(url) + store) as second:
        found = asked(first, {"search_query": [{"q": "x"}]}).json["output"]
        opened = asked(second, {"open": [{"ref_id": "turn0search0"}]}).json["output"]
        again = asked(first, {"find": [{"ref_id": "turn1view0", "pattern": "line 1"}]}).json["output"]
    assert "[turn0search0]" in found
    assert "[turn1view0]" in opened
    assert ": Line 1" in again


def test_without_a_backend() -> None:
    with running(Canned(Answer(200, chat("x")))) as up, gateway(provider("one", up)) as stand:
        got = asked(stand, {"search_query": [{"q": "x"}]})
    assert got.status == 404
    assert "[hosted.web_search]" in got.json["error"]["message"]


def test_malformed_commands() -> None:
    with searching() as (stand, _, _):
        got = asked(stand, ["x"])
    assert got.status == 400
    assert "commands" in got.json["error"]["message"]
