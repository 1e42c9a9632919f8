"""What setup.py says, beside what the tree holds."""

import ast
import pathlib
import re
import runpy
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# Starts the other programs by their place in the tree and brings .venv and results into it: it is
# for a clone, not for an installed package.
CLONE_ONLY = {"run_scripts.quickstart"}


@pytest.fixture
def said(monkeypatch):
    """The arguments that setup.py gives to setuptools.setup."""
    arguments = {}
    stub = types.SimpleNamespace(setup=arguments.update, find_packages=lambda include: include)
    monkeypatch.setitem(sys.modules, "setuptools", stub)
    runpy.run_path(str(ROOT / "setup.py"))
    return arguments


def has_main(path):
    tree = ast.parse(path.read_text("utf-8"))
    return {"main", "run"} <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_main_is_a_console_script(said):
    mains = {
        f"{package}.{path.stem}"
        for package in ("data_prep", "run_scripts")
        for path in (ROOT / package).glob("*.py")
        if has_main(path)
    }
    assert mains >= CLONE_ONLY
    scripts = dict(line.split(" = ") for line in said["entry_points"]["console_scripts"])
    assert set(scripts.values()) == {f"{main}:run" for main in mains - CLONE_ONLY}
    for name, target in scripts.items():
        stem = target.removesuffix(":run").split(".")[1]
        assert name == f"bert-tf-{stem.replace('_', '-')}"


def test_a_source_distribution_has_what_setup_reads():
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8")
    included = re.search(r"^include (.+)$", manifest, re.M)[1].split()
    reads = re.findall(r'HERE / "([^"]+)"', (ROOT / "setup.py").read_text("utf-8"))
    assert "requirements.txt" in reads
    for name in [*included, *reads]:
        assert (ROOT / name).is_file()
    assert {name for name in reads if not name.startswith("bert_tf/")} <= set(included)


def test_a_package_has_its_data(said):
    for package in ("bert_tf", "data_prep"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                folder = ".".join(path.relative_to(ROOT).parent.parts)
                patterns = said["package_data"].get(folder, [])
                assert any(path.match(pattern) for pattern in patterns), path


def test_the_ci_extra_has_what_tests_would_skip_without(said):
    wanted = set()
    for path in (ROOT / "tests").rglob("*.py"):
        wanted |= set(re.findall(r'importorskip\("(\w+)"', path.read_text("utf-8")))
    assert "apache_beam" in wanted
    requirements = [*said["install_requires"], *said["extras_require"]["ci"]]
    names = {re.match(r"[\w-]+", line)[0].replace("-", "_") for line in requirements}
    assert wanted <= names
