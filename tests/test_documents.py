"""The documentation: links lead to existing files, lists are complete, no placeholder remains."""

import pathlib
import re

import pytest

import bert_tf

ROOT = pathlib.Path(__file__).parent.parent
NAMES = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_existing_files(name):
    path = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        if not re.match(r"https?:|mailto:|#", target):
            assert (path.parent / target.split("#")[0]).exists(), f"{name} links to {target}"


@pytest.mark.parametrize("name", NAMES)
def test_no_placeholder_remains(name):
    assert not re.findall(r"@@\w*|\bTODO\b|\bTBD\b|\bXXX\b", (ROOT / name).read_text("utf-8"))


def test_the_index_lists_every_document():
    listed = set(re.findall(r"\]\(([^/)]+)\)", (ROOT / "docs/README.md").read_text("utf-8")))
    files = {path.name for path in (ROOT / "docs").glob("*") if path.suffix in (".md", ".ipynb")}
    assert listed == files - {"README.md", "index.md"}
    pages = re.findall(r"^(\w+)$", (ROOT / "docs/index.md").read_text("utf-8"), re.M)
    assert sorted(pages) == sorted(name.split(".")[0] for name in listed)


def test_the_reference_lists_every_public_name():
    text = (ROOT / "docs/api.md").read_text("utf-8")
    listed = re.findall(r"^\.\. auto\w+:: bert_tf\.(\w+)$", text, re.M)
    assert sorted(listed) == sorted(bert_tf.__all__)
