"""The documentation: links lead to existing files, and no placeholder remains."""

import pathlib
import re

import pytest

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
