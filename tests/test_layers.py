"""The tree shows the architecture: a room imports only from rooms above it."""

import ast
from pathlib import Path

import pytest

import regjax

ROOT = Path(regjax.__file__).parent
# from the top to the bottom
ROOMS = [
    "core", "losses", "penalties", "kernels", "bases", "solvers", "models", "selection", "scale", "data", "files",
    "plot", "sklearn", "command", "__init__", "__main__",
]  # fmt: skip
FILES = sorted(ROOT.rglob("*.py"))

pytestmark = pytest.mark.once


def room_of(parts):
    return parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regjax":
            inner = node.module.split(".")[1:]
            names = [inner[0]] if inner else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [
                a.name.split(".")[1] if "." in a.name else "__init__"
                for a in node.names
                if a.name.split(".")[0] == "regjax"
            ]
        else:
            continue
        yield from (name if name in ROOMS else "__init__" for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_up(path):
    own = ROOMS.index(room_of(path.relative_to(ROOT).parts))
    for room in imported_rooms(path):
        assert ROOMS.index(room) <= own, f"{path.name} imports {room}, which is below it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_private_jax_and_no_experimental_sparse(path):
    text = path.read_text()
    assert "jax._src" not in text
    assert "experimental.sparse" not in text
    assert "@jax.tree_util.register_dataclass" not in text  # see core/node.py


def test_every_public_name_has_a_docstring():
    for name in regjax.__all__:
        assert getattr(regjax, name).__doc__, name
