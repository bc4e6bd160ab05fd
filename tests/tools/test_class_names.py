"""A class name is used once in src/, so that searching for it leads to one class."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/dragoman"
# The same role in every folder of one kind: the name is the interface, the folder says whose it is.
PARALLEL = {
    "protocols": {"Grammar", "StreamDecoder", "StreamEncoder"},
    "framing": {"Decoder", "Encoder"},
}


def test_a_class_name_is_used_once() -> None:
    places: dict[str, set[Path]] = defaultdict(set)  # a set: two branches of one `if` may define a class
    for file in sorted(SOURCE.rglob("*.py")):
        folder = file.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ClassDef) or node.name in PARALLEL.get(folder, ()):
                continue
            places[node.name].add(file.relative_to(SOURCE))
    assert places
    assert {name: used for name, used in places.items() if len(used) > 1} == {}
