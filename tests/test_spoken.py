"""The table of protocols in tests has a row for each protocol that clients speak."""

from dragoman.protocols import codec, names, server
from dragoman.serving.routes import RouteTable
from spoken import SPOKEN, asking


def test_every_protocol_has_its_row() -> None:
    assert tuple(SPOKEN) == names()
    for name, row in SPOKEN.items():
        path, body = asking(name, "hi")
        found = RouteTable((route, name) for route in server(name).routes).find("POST", path, {}, {})
        assert found
        assert found[0].action == "generate"
        assert (row.field, "model" in body) == (codec(name).turns, codec(name).http.model_in_body)
