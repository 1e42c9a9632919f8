"""Who may import whom, as CONTRIBUTING.md says it; no cycles; flags only in mains."""

import ast
import graphlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("bert_tf", "data_prep", "run_scripts", "tools")
FOUNDATION = (
    "command_line", "config", "errors", "features", "files", "manifest", "progress", "weights",
    "wire_format",
)  # fmt: skip

# For each room, what it may import of ours besides itself and the foundation, and what it must not
# import of others.
ROOMS = {
    "bert_tf.tokenization": ((), ("keras",)),
    "bert_tf.modeling": ((), ("tensorflow", "tensorflow_text")),
    "bert_tf.training": ((), ()),
    "bert_tf.pretraining": (
        ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.training"), (),
    ),
    "bert_tf.tasks": (
        ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.training"), (),
    ),
    "bert_tf.feature_extraction": (
        ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.training"), (),
    ),
    "bert_tf.conversion": (
        ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.training", "bert_tf.pretraining",
         "bert_tf.tasks", "bert_tf.feature_extraction"), (),
    ),
    "bert_tf.export": (
        ("bert_tf.tokenization", "bert_tf.modeling", "bert_tf.training", "bert_tf.pretraining",
         "bert_tf.tasks", "bert_tf.feature_extraction"), (),
    ),
    "data_prep": (("bert_tf.tokenization",), ("keras",)),
    "run_scripts": (("bert_tf", "data_prep"), ()),
    "tools": (("bert_tf", "data_prep", "run_scripts"), ()),
}  # fmt: skip


def modules() -> dict[str, ast.Module]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text("utf-8"))
    return found


MODULES = modules()


def imports(name: str, top_level_only: bool = False) -> set[str]:
    """Full names of the modules that a module imports."""
    tree = MODULES[name]
    found = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} uses a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in MODULES else node.module)
    return found


def inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def room_of(module: str) -> str | None:
    return next((room for room in ROOMS if inside(module, room)), None)


@pytest.mark.parametrize("name", MODULES)
def test_imports_follow_the_table(name):
    room = room_of(name)
    allowed, never = ROOMS[room] if room else ((), ("keras", "tensorflow_text"))
    for imported in imports(name):
        assert imported.split(".")[0] not in never, f"{name} imports {imported}"
        if imported.split(".")[0] not in PACKAGES or imported == "bert_tf":
            continue
        ours = any(inside(imported, other) for other in (*allowed, room) if other)
        foundation = any(inside(imported, f"bert_tf.{part}") for part in FOUNDATION)
        assert ours or foundation, f"{name} may not import {imported}"


@pytest.mark.parametrize("name", [f"bert_tf.{part}" for part in FOUNDATION])
def test_the_foundation_imports_tensorflow_in_functions_only(name):
    heavy = {"tensorflow", "keras", "tensorflow_text"}
    assert not heavy & {imported.split(".")[0] for imported in imports(name, top_level_only=True)}


def test_task_folders_know_the_contract_only():
    for name in MODULES:
        parts = name.split(".")
        if parts[:2] == ["bert_tf", "tasks"] and len(parts) > 3:
            for imported in imports(name):
                if inside(imported, "bert_tf.tasks"):
                    own = ".".join(parts[:3])
                    assert inside(imported, own) or imported == "bert_tf.tasks.task"


def test_no_cycles():
    graph = {name: {other for other in imports(name) if other in MODULES} for name in MODULES}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_flags_are_defined_in_mains_only():
    for name, tree in MODULES.items():
        uses = any(
            isinstance(node, ast.Attribute) and node.attr.startswith(("DEFINE_", "FLAGS"))
            for node in ast.walk(tree)
        )
        main = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if uses and name not in (
            "bert_tf.command_line",
            "run_scripts.flags",
            "data_prep.config_flags",
        ):
            assert main and not name.startswith("bert_tf"), f"{name} uses flags but is no main"


def test_files_and_functions_stay_small():
    for name, tree in MODULES.items():
        assert last_line(tree) <= 400, f"{name} is over 400 lines: where is the cut?"
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.end_lineno - node.lineno < 60, f"{name}.{node.name} is too long"


def last_line(tree: ast.Module) -> int:
    return max((node.end_lineno for node in tree.body), default=0)


def test_every_package_says_what_it_is():
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")):
        name = ".".join(path.relative_to(ROOT).parent.parts)
        assert len(ast.get_docstring(MODULES[name]) or "") > 60, f"{name} has no real docstring"
