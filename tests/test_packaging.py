"""Compares setup.py with the files of the repository."""

import ast
import pathlib
import re
import runpy
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# The quickstart starts the other programs by their paths in the repository and writes its results
# there. It runs from a clone, not from an installed package.
CLONE_ONLY = {"run_scripts.quickstart"}


@pytest.fixture
def setup_arguments(monkeypatch):
    """The arguments that setup.py passes to setuptools.setup."""
    arguments = {}
    stub = types.SimpleNamespace(setup=arguments.update, find_packages=lambda include: include)
    monkeypatch.setitem(sys.modules, "setuptools", stub)
    runpy.run_path(str(ROOT / "setup.py"))
    return arguments


def has_main(path):
    tree = ast.parse(path.read_text("utf-8"))
    return {"main", "run"} <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_main_is_a_console_script(setup_arguments):
    mains = {
        f"{package}.{path.stem}"
        for package in ("data_prep", "run_scripts")
        for path in (ROOT / package).glob("*.py")
        if has_main(path)
    }
    assert mains >= CLONE_ONLY
    scripts = dict(line.split(" = ") for line in setup_arguments["entry_points"]["console_scripts"])
    assert set(scripts.values()) == {f"{main}:run" for main in mains - CLONE_ONLY}
    for name, target in scripts.items():
        stem = target.removesuffix(":run").split(".")[1]
        assert name == f"bert-tf-{stem.replace('_', '-')}"


def test_source_distribution_contains_the_files_that_setup_reads():
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8")
    included = re.search(r"^include (.+)$", manifest, re.M)[1].split()
    reads = re.findall(r'HERE / "([^"]+)"', (ROOT / "setup.py").read_text("utf-8"))
    assert "requirements.txt" in reads
    for name in [*included, *reads]:
        assert (ROOT / name).is_file()
    assert {name for name in reads if not name.startswith("bert_tf/")} <= set(included)


def test_package_data_includes_all_data_files(setup_arguments):
    for package in ("bert_tf", "data_prep"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                folder = ".".join(path.relative_to(ROOT).parent.parts)
                patterns = setup_arguments["package_data"].get(folder, [])
                assert any(path.match(pattern) for pattern in patterns), path


def test_ci_extra_contains_the_packages_that_tests_import_optionally(setup_arguments):
    optional = set()
    for path in (ROOT / "tests").rglob("*.py"):
        optional |= set(re.findall(r'importorskip\("(\w+)"', path.read_text("utf-8")))
    assert "apache_beam" in optional
    requirements = [*setup_arguments["install_requires"], *setup_arguments["extras_require"]["ci"]]
    names = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in requirements}
    assert optional <= names
