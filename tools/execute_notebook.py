"""Executes docs/python_guide.ipynb in an empty folder and stores its outputs.

    .venv/bin/python -m tools.execute_notebook

Run this program after a change of the notebook, because the documentation shows the
stored outputs. It requires the extra "docs".
"""

import pathlib
import tempfile
from typing import Any

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).parent.parent / "docs/python_guide.ipynb"


def execute() -> Any:
    """Returns the executed notebook.

    Messages on stderr and times are left out: they differ between machines.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised an exception.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        options = {"record_timing": False, "coalesce_streams": True}
        nbclient.NotebookClient(notebook, resources=resources, **options).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                each for each in cell.outputs if each.get("name") != "stderr"
            ]
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(), NOTEBOOK)
