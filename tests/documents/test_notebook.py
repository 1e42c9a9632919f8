"""The notebook in docs/ runs, and contains the outputs of such a run."""

import json
import pathlib
import re

import pytest

LIBRARIES = {"keras", "numpy", "scipy", "sklearn", "tensorflow"}
NOTEBOOK = pathlib.Path(__file__).parents[2] / "docs/python_guide.ipynb"


def printed_text(notebook):
    """Returns the text that each cell printed."""
    return [
        "".join("".join(output.get("text", "")) for output in cell.get("outputs", []))
        for cell in notebook["cells"]
    ]


def check_outputs(texts):
    ((accuracy, baseline),) = (
        match.groups()
        for text in texts
        if (match := re.match(r"accuracy (.+)%, most frequent library (.+)%", text))
    )
    assert float(accuracy) > 2 * float(baseline)
    assert any("the same predictions: True" in text for text in texts)
    served = [
        re.fullmatch(r"(\w+) +\d+% .+", line)[1] for line in texts[-1].splitlines()
    ]
    assert len(served) == 3 and {*served} <= LIBRARIES


def test_the_stored_outputs_are_those_of_a_complete_run():
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert NOTEBOOK.stat().st_size < 50_000
    check_outputs(printed_text(notebook))


@pytest.mark.slow
def test_the_notebook_runs():
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    from tools import execute_notebook

    check_outputs(printed_text(execute_notebook.execute()))
