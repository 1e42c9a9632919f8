"""The web pages of the documentation build without warnings and have docstrings."""

import pathlib
import re

import pytest
from run_programs import run_python

import bert_tf

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_the_pages_build_without_warnings(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    command = "-m sphinx -W --keep-going -n -q docs"
    run_python(*command.split(), tmp_path, cwd=ROOT)
    index, reference, packages = (
        (tmp_path / f"{name}.html").read_text("utf-8")
        for name in ("index", "api", "api_packages")
    )
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="{page.stem}.html"' in index or page.stem in ("README", "index")
    assert f"blob/v{bert_tf.__version__}/CONTRIBUTING.md" in index
    for name in bert_tf.__all__:
        assert f'id="bert_tf.{name}"' in reference
    for section in ("Call arguments", "Returns", "Raises", "Attributes"):
        assert re.search(f'<dt class="field-(odd|even)">{section}', reference)
    assert '<p class="rubric">Source</p>' in reference
    parameter = '<em class="sig-param"><span class="n"><span class="pre">num_labels<'
    assert parameter in reference
    # A reference from a docstring, and one from an annotation with the defining module.
    assert re.search(r'href="#bert_tf.BertEncoder"[^>]*><code', reference)
    assert 'href="api.html#bert_tf.BertConfig"' in packages
