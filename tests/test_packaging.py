"""Compares setup.py with the files of the repository."""

import ast
import pathlib
import re
import runpy
import sys
import types

import pytest
from run_programs import run_python

ROOT = pathlib.Path(__file__).parent.parent
# The quickstart starts the other programs by their paths in the repository and writes
# its results there. It runs from a clone, not from an installed package.
CLONE_ONLY = {"bert_tf.run_scripts.quickstart"}


@pytest.fixture
def setup_arguments(monkeypatch):
    """The arguments that setup.py passes to setuptools.setup."""
    arguments = {}
    stub = types.SimpleNamespace(
        setup=arguments.update, find_packages=lambda include: include
    )
    monkeypatch.setitem(sys.modules, "setuptools", stub)
    runpy.run_path(str(ROOT / "setup.py"))
    return arguments


def has_main(path):
    tree = ast.parse(path.read_text("utf-8"))
    return {"main", "run"} <= {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef)
    }


def test_every_main_is_a_console_script(setup_arguments):
    mains = {
        f"bert_tf.{package}.{path.stem}"
        for package in ("data_prep", "run_scripts")
        for path in (ROOT / package).glob("*.py")
        if has_main(path)
    }
    assert mains >= CLONE_ONLY
    scripts = dict(
        line.split(" = ") for line in setup_arguments["entry_points"]["console_scripts"]
    )
    assert set(scripts.values()) == {f"{main}:run" for main in mains - CLONE_ONLY}
    for name, target in scripts.items():
        stem = target.removesuffix(":run").split(".")[-1]
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
    packaged = set()
    for package, patterns in setup_arguments["package_data"].items():
        for outside, folder in setup_arguments["package_dir"].items():
            package = package.replace(outside, folder)
        for pattern in patterns:
            packaged |= set((ROOT / package.replace(".", "/")).glob(pattern))
    data_files = {
        path
        for folder in ("bert_tf", "data_prep", "run_scripts/recipes")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert len(data_files) >= 5
    assert packaged == data_files


def test_links_of_the_readme_are_absolute_on_a_package_index(setup_arguments):
    links = re.findall(r"\]\(([^)]+)\)", setup_arguments["long_description"])
    assert len(links) > 3
    assert all(link.startswith(setup_arguments["url"]) for link in links)


def test_ci_extra_contains_the_packages_that_tests_import_optionally(setup_arguments):
    optional = set()
    for path in (ROOT / "tests").rglob("*.py"):
        optional |= set(re.findall(r'importorskip\("(\w+)"', path.read_text("utf-8")))
    assert "apache_beam" in optional
    requirements = [
        *setup_arguments["install_requires"],
        *setup_arguments["extras_require"]["ci"],
    ]
    names = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in requirements}
    assert optional <= names


def test_the_package_lists_its_programs():
    listed = run_python("-m", "bert_tf").stdout
    purpose = "Pretrains BERT with masked-LM and next-sentence prediction"
    assert re.search(rf"^  bert-tf-run-pretraining +{purpose}", listed, re.M)
    assert len(re.findall(r"^  bert-tf-[\w-]+ +[A-Z].+\.$", listed, re.M)) == 18
