"""dragoman.toml: what it may say, what the environment says above it, and how a mistake is named."""

from pathlib import Path

import pytest

from dragoman.core.errors import ConfigError
from dragoman.gateway.config import Config, away_from, load, load_file
from dragoman.gateway.config.keys import Allowance, NamedKey
from dragoman.gateway.config.models import ModelRow, ModelTarget
from dragoman.gateway.config.tables import LimitsTable
from dragoman.gateway.conversations.store import Retention
from dragoman.http.client import Timeouts

LOCAL = '[providers.local]\nprotocol = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n'


def test_an_empty_configuration_is_loopback_without_providers():
    config = load("", {})
    assert config == Config()
    assert (config.host, config.port, config.keys, config.providers) == ("127.0.0.1", 8787, (), {})
    assert config.loopback


def test_every_key_is_read():
    config = load(
        """
        [server]
        host = "0.0.0.0"
        port = 9000
        keys = ["env:KEY", "plain"]
        max_body_mb = 2
        grace = 5
        [limits]
        in_flight = 10
        queue = 20
        queue_seconds = 1.5
        requests_per_minute = 600
        concurrency = 8
        [keys.alice]
        key = "env:ALICE"
        requests_per_minute = 60
        [keys.bob]
        key = "b"
        concurrency = 0
        [store]
        url = "sqlite:///x.db"
        keep_days = 0.5
        max_mb = 10
        [log]
        verbose = true
        file = "x.log"
        [providers.local]
        protocol = "openai-chat"
        base_url = "http://127.0.0.1:9/v1"
        api_key = "env:LOCAL"
        dialect = "hermes"
        recover = false
        passthrough = true
        headers = { X-Team = "env:TEAM" }
        timeouts = { connect = 1, idle = 2.5 }
        max_concurrency = 3
        queue = 4
        queue_seconds = 0.5
        models = ["a", "b"]
        [models]
        "claude-*" = ["local:a", "groq:b"]
        small = "local:b"
        """,
        {"KEY": "k1", "LOCAL": "k2", "TEAM": "blue", "ALICE": "a"},
    )
    assert (config.host, config.port, config.keys) == ("0.0.0.0", 9000, ("k1", "plain", "a", "b"))
    assert (config.max_body, config.grace, config.store_url) == (2 * 1024 * 1024, 5, "sqlite:///x.db")
    assert config.retention == Retention(12 * 3600.0, 10 * 1024 * 1024)
    assert (config.verbose, config.log_file) == (True, "x.log")
    assert config.limits == LimitsTable(10, 20, 1.5, 600, 8)
    assert config.named_keys == (
        NamedKey("alice", "a", Allowance(60, 8)),  # what it does not say is as for everyone
        NamedKey("bob", "b", Allowance(600, 0)),
    )
    local = config.providers["local"]
    assert (local.protocol, local.base_url, local.credentials.account) == (
        "openai-chat",
        "http://127.0.0.1:9/v1",
        "k2",
    )
    assert (local.dialect, local.recover, local.passthrough) == ("hermes", False, True)
    assert (local.headers, local.timeouts) == ({"x-team": "blue"}, Timeouts(connect=1, idle=2.5))
    assert (local.max_concurrency, local.queue, local.queue_seconds) == (3, 4, 0.5)
    assert local.models == ("a", "b")
    assert [(row.pattern, str(row)) for row in config.models] == [
        ("claude-*", "local:a, groq:b"),
        ("small", "local:b"),
    ]


# name: (file, environment, message)
def test_a_date_is_valid_until_its_end() -> None:
    def expires(text: str) -> float:
        return load(f'[keys.a]\nkey = "k"\nexpires = {text}\n', {}).named_keys[0].expires

    assert expires("2027-01-31") == expires("2027-02-01T00:00:00Z") == expires('"2027-02-01T01:00:00+01:00"')


MISTAKES: dict[str, tuple[str, dict[str, str], str]] = {
    "a number without end": (f"[server]\nport = {'9' * 5000}", {}, "dragoman.toml:1: exceeds the limit"),
    "brackets without end": (f"x = {'[' * 5000}", {}, "dragoman.toml:1: maximum recursion depth"),
    "a variable of brackets": ("", {"DRAGOMAN_SERVER__KEYS": "[" * 5000}, "DRAGOMAN_SERVER__KEYS: maximum"),
    "no TOML": ("a = \n", {}, "dragoman.toml:1: invalid value"),
    "no TOML, further down": (
        "[server]\nport = 1\nport = 2\n",
        {},
        "dragoman.toml:3: cannot overwrite a value",
    ),
    "no TOML, to the end": ('[server]\nhost = "x', {}, "dragoman.toml:2: "),
    "an unknown table": (
        "[sever]\n",
        {},
        "dragoman.toml:1: sever: Unknown key 'sever'. Did you mean 'server'?",
    ),
    "a key beside the tables": (
        "port = 1\n",
        {},
        "dragoman.toml:1: port: Unknown key 'port'. Known: server, limits, keys, store, log",
    ),
    "no table": ("server = 5\n", {}, "dragoman.toml:1: server: expected a table"),
    "an unknown key": (
        "[server]\n\nprot = 1\n",
        {},
        "dragoman.toml:3: server.prot: Unknown key 'prot'. Did you mean 'port'?",
    ),
    "nothing like it": (
        "[store]\nxyzzy = 1\n",
        {},
        "dragoman.toml:2: store.xyzzy: Unknown key 'xyzzy'. Known: url",
    ),
    "not a number": (
        '[server]\nport = "http"\n',
        {},
        "dragoman.toml:2: server.port: expected a whole number, got a string",
    ),
    "not a port": (
        "[server]\nport = 70000\n",
        {},
        "dragoman.toml:2: server.port: expected a whole number <= 65535",
    ),
    "no truth": (
        "[server]\nport = true\n",
        {},
        "dragoman.toml:2: server.port: expected a whole number, got true or false",
    ),
    "no flag": (
        '[log]\nverbose = "maybe"\n',
        {},
        "dragoman.toml:2: log.verbose: expected true or false, got a string",
    ),
    "keys of another kind": (
        "[server]\nkeys = [1]\n",
        {},
        "dragoman.toml:2: server.keys[0]: expected a string, got a whole number",
    ),
    "an empty key": (
        '[server]\nkeys = [""]\n',
        {},
        "dragoman.toml:2: server.keys: an empty key would let everyone in",
    ),
    "a variable that is not set": (
        '[server]\nkeys = ["env:NOPE"]\n',
        {},
        "dragoman.toml:2: server.keys[0]: the variable NOPE is not set",
    ),
    "an empty variable": ('[server]\nkeys = ["env:NOPE"]\n', {"NOPE": ""}, "the variable NOPE is not set"),
    "open to the world": (
        '[server]\nhost = "0.0.0.0"\n',
        {},
        "dragoman.toml:2: server.host: Refusing to listen on 0.0.0.0 without client keys. Set server.keys",
    ),
    "a store of another kind": (
        '[store]\nurl = "mysql://me:pw@x/y"\n',
        {},
        "dragoman.toml:2: store.url: expected sqlite:///FILE, memory: or postgresql://",
    ),
    "a store by a variable": (
        "",
        {"DRAGOMAN_STORE__URL": "x.db"},
        "DRAGOMAN_STORE__URL: expected sqlite:///FILE",
    ),
    "kept for no time": (
        "[store]\nurl = 'memory:'\nkeep_days = 0\n",
        {},
        "dragoman.toml:3: store.keep_days: expected a number > 0",
    ),
    "no room": ("[store]\nmax_mb = 0\n", {}, "dragoman.toml:2: store.max_mb: expected a whole number >= 1"),
    "credentials in an address": (
        '[providers.x]\nprotocol = "openai-chat"\nbase_url = "https://me:hush@x/v1"\n',
        {},
        "dragoman.toml:3: providers.x.base_url: write no credentials into a URL: use api_key or headers",
    ),
    "no provider": (
        "[providers]\nx = 5\n",
        {},
        "dragoman.toml:2: providers.x: expected a table, got a whole number",
    ),
    "a provider with a typo": (
        '[providers.google]\nprotocl = "gemini"\n',
        {},
        "dragoman.toml:2: providers.google.protocl: Unknown key 'protocl'. Did you mean 'protocol'?",
    ),
    "a provider without a protocol": (
        '\n[providers.mine]\nbase_url = "http://x"\n',
        {},
        "dragoman.toml:2: providers.mine.protocol: The protocol is missing. Known: openai-chat",
    ),
    "a protocol that is nearly one": (
        '[providers.mine]\nprotocol = "qwen_chat"\nbase_url = "http://x"\n',
        {},
        "dragoman.toml:2: providers.mine.protocol: Unknown protocol 'qwen_chat'. Did you mean 'qwen-chat'?",
    ),
    "an unknown protocol": (
        LOCAL.replace("openai-chat", "openai-chatt"),
        {},
        "dragoman.toml:2: providers.local.protocol: Unknown protocol 'openai-chatt'. Did you mean",
    ),
    "an unknown dialect": (
        LOCAL + 'dialect = "hermez"\n',
        {},
        "dragoman.toml:4: providers.local.dialect: Unknown dialect 'hermez'. Did you mean 'hermes'?",
    ),
    "no address": (
        '[providers.mine]\nprotocol = "gemini"\n',
        {},
        "dragoman.toml:1: providers.mine.base_url: missing",
    ),
    "not an address": (
        '[providers.mine]\nprotocol = "gemini"\nbase_url = "localhost:80"\n',
        {},
        "dragoman.toml:3: providers.mine.base_url: expected an http or https URL, got 'localhost:80'",
    ),
    "an address with the version that is added": (
        '[providers.mine]\nprotocol = "anthropic"\nbase_url = "http://x/v1/"\n',
        {},
        "dragoman.toml:3: providers.mine.base_url: leave out /v1 at the end: /v1/messages is added to it",
    ),
    "the address of a method": (
        LOCAL.replace("/v1", "/v1/chat/completions"),
        {},
        "dragoman.toml:3: providers.local.base_url: leave out /chat/completions at the end",
    ),
    "a name with a colon": (
        '[providers."a:b"]\nprotocol = "gemini"\nbase_url = "http://x"\n',
        {},
        "dragoman.toml:1: providers.a:b: the name of a provider has no spaces, colons or slashes",
    ),
    "a key that is not there": (
        LOCAL + 'api_key = "env:K"\n',
        {},
        "dragoman.toml:4: providers.local.api_key: the variable K is not set",
    ),
    "a header that is not there": (
        LOCAL + 'headers = { a = "env:K" }\n',
        {},
        "dragoman.toml:4: providers.local.headers.a: the variable K is not set",
    ),
    "headers of another kind": (
        LOCAL + "headers = { a = 1 }\n",
        {},
        "dragoman.toml:4: providers.local.headers: expected a string",
    ),
    "a timeout with a typo": (
        LOCAL + "[providers.local.timeouts]\nidel = 5\n",
        {},
        "dragoman.toml:5: providers.local.timeouts.idel: Unknown key 'idel'. Did you mean 'idle'?",
    ),
    "a timeout with a typo, in one line": (
        LOCAL + "timeouts = { idel = 5 }\n",
        {},
        "dragoman.toml:4: providers.local.timeouts.idel: Unknown key 'idel'. Did you mean 'idle'?",
    ),
    "no time": (
        LOCAL + "timeouts = { idle = 0 }\n",
        {},
        "dragoman.toml:4: providers.local.timeouts.idle: expected a number > 0",
    ),
    "no count": (
        LOCAL + "max_concurrency = -1\n",
        {},
        "dragoman.toml:4: providers.local.max_concurrency: expected a whole number >= 0",
    ),
    "a named key without its key": (
        "[keys.alice]\nconcurrency = 1\n",
        {},
        "dragoman.toml:1: keys.alice.key: missing",
    ),
    "a named key that is empty": ('[keys.a]\nkey = ""\n', {}, "dragoman.toml:2: keys.a.key: an empty key"),
    "a key with two names": (
        '[keys.a]\nkey = "x"\n[keys.b]\nkey = "x"\n',
        {},
        "dragoman.toml:4: keys.b.key: the same key as in keys.a",
    ),
    "a key with a name and without": (
        '[server]\nkeys = "x"\n[keys.b]\nkey = "x"\n',
        {},
        "dragoman.toml:4: keys.b.key: the same key as in server.keys",
    ),
    "a limit of a key with a typo": (
        '[keys.a]\nkey = "x"\nconcurency = 1\n',
        {},
        "dragoman.toml:3: keys.a.concurency: Unknown key 'concurency'. Did you mean 'concurrency'?",
    ),
    "a negative limit": (
        "[limits]\nin_flight = -1\n",
        {},
        "dragoman.toml:2: limits.in_flight: expected a whole number >= 0",
    ),
    "no date": (
        '[keys.a]\nkey = "k"\nexpires = "soon"\n',
        {},
        "dragoman.toml:3: keys.a.expires: expected a date or a time, got 'soon'",
    ),
    "half of TLS": (
        '[server]\ntls_cert = "c.pem"\n',
        {},
        "dragoman.toml:2: server.tls_cert: tls_cert and tls_key belong together",
    ),
    "no target": (
        "[models]\nx = 5\n",
        {},
        'dragoman.toml:2: models.x: expected "provider:model", an array of them or { to = … }',
    ),
    "a key with a line break": (
        LOCAL + 'api_key = "sk\\n"\n',
        {},
        "providers.local.api_key: A key is made of visible ASCII",
    ),
    "a client's key with a space": (
        '[server]\nkeys = ["a b"]\n',
        {},
        "dragoman.toml:2: server.keys[0]: A key is made of visible ASCII",
    ),
    "a named key that is not ASCII": (
        '[keys.a]\nkey = "schlüssel"\n',
        {},
        "dragoman.toml:2: keys.a.key: A key is made of visible ASCII",
    ),
    "a usual variable with a line break inside": (
        "",
        {"GROQ_API_KEY": "a\nb"},
        "GROQ_API_KEY: A key is made of visible ASCII characters",
    ),
    "a header with a line break": (
        LOCAL + 'headers = { "x-a" = "1\\r\\nx-b: 2" }\n',
        {},
        "providers.local.headers.x-a: not a header",
    ),
    "a header name with a space": (
        LOCAL + 'headers = { "x a" = "1" }\n',
        {},
        "providers.local.headers.x a: not a header",
    ),
    "a query in the address": (
        '[providers.x]\nprotocol = "anthropic"\nbase_url = "http://h/?key=sk-1"\n',
        {},
        "dragoman.toml:3: providers.x.base_url: paths are appended to it, so it cannot have a query",
    ),
    "a port that is none": (
        '[providers.x]\nprotocol = "anthropic"\nbase_url = "http://h:99999"\n',
        {},
        "dragoman.toml:3: providers.x.base_url: the port is not a number up to 65535",
    ),
    "no targets": ("[models]\nx = []\n", {}, "dragoman.toml:2: models.x: expected at least one target"),
    "targets of another kind": (
        "[models]\nx = [1]\n",
        {},
        'dragoman.toml:2: models.x[0]: expected "provider:model" or {',
    ),
    "a target without a provider": (
        '[models]\nx = "gpt-5"\n',
        {},
        "dragoman.toml:2: models.x: 'gpt-5' is not provider:model",
    ),
    "a target without a model": (
        '[models]\nx = "groq:"\n',
        {},
        "dragoman.toml:2: models.x: 'groq:' is not provider:model",
    ),
    "an unknown provider": (
        '[models]\n"a.b" = "grok:x"\n',
        {},
        "dragoman.toml:2: models.a.b: Unknown provider 'grok'. Did you mean 'groq'?",
    ),
    "in a variable": (
        "",
        {"DRAGOMAN_SERVER__PORT": "http"},
        "DRAGOMAN_SERVER__PORT: expected a whole number, got a string",
    ),
    "a variable with a typo": (
        "",
        {"DRAGOMAN_SERVER__PROT": "1"},
        "DRAGOMAN_SERVER__PROT: Unknown key 'prot'. Did you mean 'port'?",
    ),
    "a variable of no table": (
        "",
        {"DRAGOMAN_SEVER__PORT": "1"},
        "DRAGOMAN_SEVER__PORT: Unknown section 'sever'. Did you mean 'server'?",
    ),
    "a variable that is no TOML": ("", {"DRAGOMAN_MODELS": "{x"}, "DRAGOMAN_MODELS: "),
    "a variable that is no table": ("", {"DRAGOMAN_MODELS": "x"}, "DRAGOMAN_MODELS: expected a table"),
    "a variable inside what is no table": (
        "",
        {"DRAGOMAN_SERVER__PORT__X": "1", "DRAGOMAN_SERVER__PORT": "1"},
        "DRAGOMAN_SERVER__PORT__X: port is not a table",
    ),
    "one part by file, one by variable": (
        "",
        {"DRAGOMAN_PROVIDERS__MINE__BASE_URL": "http://x"},
        "dragoman.toml: providers.mine.protocol: The protocol is missing",
    ),
}


@pytest.mark.parametrize("text, environ, message", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(text: str, environ: dict[str, str], message: str):
    with pytest.raises(ConfigError) as caught:
        load(text, environ)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


SEVERAL = """
[server]
prot = 9
keys = ["env:NOPE", 7]
[serfer]
[limits]
queue = -1
in_flight = "many"
[keys.alice]
key = "a"
expires = "never"
concurency = 3
[providers.local]
protocol = "openai-chatt"
base_url = "http://127.0.0.1:9/v1/chat/completions"
dialect = "hermez"
timeouts = { idel = 3 }
[providers.misspelt]
protocl = "openai-chat"
base_ulr = "http://127.0.0.1:9/v1"
[models]
a = ["local:x", "grok:m", "misspelt:y"]
b = { to = "groq:x", imagess = false, set = { temprature = 1 } }
c = []
"""


def test_several_mistakes_are_reported_at_once_and_what_follows_from_one_is_not():
    with pytest.raises(ConfigError) as caught:
        load(SEVERAL, {"DRAGOMAN_JOBS__BATCH_CONCURRENCY": "0"})
    first, *rest = str(caught.value).splitlines()
    places = [line.strip().removeprefix("dragoman.toml:").split(": ")[:2] for line in rest]
    assert first == "17 mistakes:"
    assert places == [
        ["DRAGOMAN_JOBS__BATCH_CONCURRENCY", "expected a whole number >= 1"],
        ["3", "server.prot"],
        ["4", "server.keys[1]"],
        ["5", "serfer"],
        ["7", "limits.queue"],
        ["8", "limits.in_flight"],
        ["11", "keys.alice.expires"],
        ["12", "keys.alice.concurency"],
        ["14", "providers.local.protocol"],
        ["16", "providers.local.dialect"],
        ["17", "providers.local.timeouts.idel"],
        ["19", "providers.misspelt.protocl"],
        ["20", "providers.misspelt.base_ulr"],
        ["22", "models.a[1]"],
        ["23", "models.b.set.temprature"],
        ["23", "models.b.imagess"],
        ["24", "models.c"],
    ]


def test_secrets_stay_out_of_mistakes():
    with pytest.raises(ConfigError) as caught:
        load(LOCAL + 'api_key = ["sk-secret"]\n', {})
    assert "secret" not in str(caught.value)


def test_secrets_stay_out_of_what_is_printed():
    config = load(
        LOCAL + 'api_key = "sk-secret"\nheaders = { a = "hush-secret" }\n[server]\nkeys = ["my-secret"]\n'
        '[keys.alice]\nkey = "her-secret"',
        {},
    )
    assert "secret" not in repr(config)
    assert "secret" not in repr(config.named_keys)
    assert "secret" not in repr(config.providers["local"])


# name: (file, environment, what is asked of the configuration, what it is)
ABOVE: dict[str, tuple[str, dict[str, str], str, object]] = {
    "a number": ("[server]\nport = 1\n", {"DRAGOMAN_SERVER__PORT": "9000"}, "port", 9000),
    "a text that looks like a number": ("", {"DRAGOMAN_SERVER__KEYS": "1234"}, "keys", ("1234",)),
    "a flag": ("", {"DRAGOMAN_LOG__VERBOSE": "true"}, "verbose", True),
    "an array": ("", {"DRAGOMAN_SERVER__KEYS": '["a", "env:B"]', "B": "b"}, "keys", ("a", "b")),
    "a reference": ("", {"DRAGOMAN_SERVER__KEYS": "env:B", "B": "b"}, "keys", ("b",)),
    "an empty variable says nothing": ("[server]\nport = 1\n", {"DRAGOMAN_SERVER__PORT": ""}, "port", 1),
    "a host, with keys": (
        "",
        {"DRAGOMAN_SERVER__HOST": "0.0.0.0", "DRAGOMAN_SERVER__KEYS": "k"},
        "host",
        "0.0.0.0",
    ),
    "how long it keeps": (
        "[store]\nmax_mb = 9\n",
        {"DRAGOMAN_STORE__KEEP_DAYS": "1"},
        "retention",
        Retention(24 * 3600.0, 9 * 1024 * 1024),
    ),
    "a named key": ("", {"DRAGOMAN_KEYS__MY_LAPTOP__KEY": "k"}, "keys", ("k",)),
    "a limit": ("", {"DRAGOMAN_LIMITS__IN_FLIGHT": "7"}, "limits", LimitsTable(in_flight=7)),
    "a store": ("", {"DRAGOMAN_STORE__URL": "env:DB", "DB": "postgresql://x"}, "store_url", "postgresql://x"),
    "models beside those of the file": (
        '[models]\na = "demo:x"\nb = "demo:y"\n',
        {"DRAGOMAN_MODELS": '{"b" = "demo:z", "c-*" = ["demo:*"]}'},
        "models",
        tuple(
            [
                ModelRow(name, (ModelTarget("demo", model),))
                for name, model in (("a", "x"), ("b", "z"), ("c-*", "*"))
            ]
        ),
    ),
    "other variables are none of ours": ("", {"DRAGOMAN_KEY": "x", "DRAGOMAN_SERVER": "x"}, "keys", ()),
}


@pytest.mark.parametrize("text, environ, field, value", ABOVE.values(), ids=ABOVE)
def test_the_environment_is_above_the_file(text: str, environ: dict[str, str], field: str, value: object):
    assert getattr(load(text, environ), field) == value


def test_a_provider_by_variables_alone():
    config = load(
        "",
        {
            "DRAGOMAN_PROVIDERS__MY_BOX__PROTOCOL": "openai-chat",
            "DRAGOMAN_PROVIDERS__MY_BOX__BASE_URL": "http://10.0.0.9/v1",
            "DRAGOMAN_PROVIDERS__MY_BOX__TIMEOUTS__IDLE": "5",
            "DRAGOMAN_PROVIDERS__GOOGLE_AI_STUDIO__API_KEY": "k",
        },
    )
    assert config.providers["my-box"].base_url == "http://10.0.0.9/v1"
    assert config.providers["my-box"].timeouts.idle == 5
    assert config.providers["google-ai-studio"].credentials.account == "k"


def test_a_variable_reaches_a_provider_of_the_file_by_its_name():
    file = LOCAL.replace("local", "My_Box")
    config = load(file, {"DRAGOMAN_PROVIDERS__MY_BOX__API_KEY": "k"})
    assert {name: provider.credentials.account for name, provider in config.providers.items()} == {
        "My_Box": "k"
    }


def test_the_default_file_may_be_missing_another_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert load_file(None, {}) == Config()
    for path, environ in (("x.toml", {}), (None, {"DRAGOMAN_CONFIG": "x.toml"})):
        with pytest.raises(ConfigError, match=r"^There is no file x\.toml\.$"):
            load_file(path, environ)
    (tmp_path / "dragoman.toml").write_text("[server]\nport = 5\n")
    (tmp_path / "x.toml").write_text("[server]\nport = 6\n")
    assert load_file(None, {"DRAGOMAN_CONFIG": "x.toml"}).port == 6
    assert load_file("dragoman.toml", {"DRAGOMAN_CONFIG": "x.toml"}).port == 5


def test_a_file_that_cannot_be_read(tmp_path: Path):
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("bytes.toml", "."):
        with pytest.raises(ConfigError, match=str(tmp_path)):
            load_file(str(tmp_path / name), {})


ELSEWHERE = '[providers.openai]\nbase_url = "http://127.0.0.1:9/v1"\n'
KEEPS = {
    "at its own address": ('[providers.openai]\napi_key = "k"\n', True),
    "elsewhere": (ELSEWHERE, False),
    "elsewhere, and it says so": (f"{ELSEWHERE}keeps = true\n", True),
    "not wanted": ("[providers.openai]\nkeeps = false\n", False),
}


@pytest.mark.parametrize("text, keeps", KEEPS.values(), ids=KEEPS)
def test_who_keeps_conversations_is_known_of_an_address(text: str, keeps: bool):
    assert load(text, {}).providers["openai"].keeps is keeps


KEYED = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}
# variable: (its value, the providers that it moves, their address)
MOVED = {
    "OPENAI_BASE_URL": ("http://127.0.0.1:9/v1/", ("openai", "openai-chat"), "http://127.0.0.1:9/v1"),
    "ANTHROPIC_BASE_URL": ("http://127.0.0.1:9", ("anthropic",), "http://127.0.0.1:9"),
    "GOOGLE_GEMINI_BASE_URL": (" http://127.0.0.1:9\n", ("google-ai-studio",), "http://127.0.0.1:9"),
}


@pytest.mark.parametrize("variable", MOVED)
def test_the_vendors_own_variable_moves_a_provider(variable: str) -> None:
    value, names, address = MOVED[variable]
    usual, moved = load("", KEYED), load("", {**KEYED, variable: value})
    for name, provider in moved.providers.items():
        if name in names:
            assert (provider.base_url, provider.url_from, provider.keeps) == (address, variable, False)
        else:
            assert provider == usual.providers[name]
    mine = load('[providers.openai]\nbase_url = "http://x/v1"\n', {**KEYED, "OPENAI_BASE_URL": "http://y/v1"})
    assert (mine.providers["openai"].base_url, mine.providers["openai"].url_from) == ("http://x/v1", "")


def test_a_vendors_variable_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^ANTHROPIC_BASE_URL: leave out /v1 at the end"):
        load("", {**KEYED, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/v1"})


def test_a_gateway_does_not_call_itself() -> None:
    """In the shell where agents are told of it, too."""
    environ = {**KEYED, "ANTHROPIC_BASE_URL": "http://localhost:8787", "OPENAI_BASE_URL": "http://x:8787/v1"}
    config = away_from(load("", environ), "127.0.0.1", 8787)
    assert config.providers["anthropic"] == load("", KEYED).providers["anthropic"]
    assert config.providers["openai"].base_url == "http://x:8787/v1"
