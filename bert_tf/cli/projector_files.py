"""Writes the folder of `predict.py --format=projector` for TensorBoard's projector.

`tensors.tsv` has one vector on each line, and `metadata.tsv` has the text of the vector,
or the columns of its row in a table.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

from bert_tf.cli.prediction_tables import cell_text
from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.overwrite_rule import (
    check_is_not_input,
    check_is_own,
    first_foreign,
    refusal,
)
from bert_tf.storage.paths import check_output_folder

_TENSORS = "tensors.tsv"
_METADATA = "metadata.tsv"
_CONFIG = "projector_config.pbtxt"
_CONTENT = f"""\
embeddings {{
  tensor_name: "embeddings"
  tensor_path: "{_TENSORS}"
  metadata_path: "{_METADATA}"
}}
"""


def check_folder(folder: str, source: str | None) -> None:
    """Checks that the folder is writable, and has only files of an earlier call, not `source`."""
    check_output_folder(folder, _CONFIG)
    own = (_TENSORS, _METADATA, _CONFIG)
    remedy = "Give the path of a new folder"
    check_is_own(
        folder, own, marks=[_CONFIG], reason=f"{_CONFIG} is missing", remedy=remedy
    )
    if foreign := first_foreign(folder, own.__contains__):
        raise refusal(folder, f"but contains {foreign}", remedy)
    if source:
        check_is_not_input(source, folder, own)


def write(folder: str, found: Iterable[tuple[Any, dict[str, Any]]]) -> None:
    """Writes the vectors, and the texts or rows to which the vectors belong.

    The folder appears when it is complete. `found` has each row of a table, or each
    text, with its prediction, which must contain a vector.
    """
    names: list[str] = []
    with files.atomic_folder(folder, _CONFIG) as temporary:
        paths = (os.path.join(temporary, name) for name in (_TENSORS, _METADATA))
        tensors, metadata = (files.open_binary(path, "wb") for path in paths)
        with tensors, metadata:
            for number, (row, prediction) in enumerate(found, start=1):
                if "embedding" not in prediction:
                    raise InputError(
                        "--format=projector is for the vectors of a model of the task "
                        f"embedding. This one returns {', '.join(prediction)}."
                    )
                vector = (f"{value:.7g}" for value in prediction["embedding"])
                tensors.write(("\t".join(vector) + "\n").encode())

                # The projector expects the names of several columns, but not of one.
                columns = row if isinstance(row, dict) else {"text": row}
                if not names and len(columns) > 1:
                    metadata.write(_line(columns))
                names = names or list(columns)
                if further := columns.keys() - names:
                    raise InputError(
                        f"Row {number} has the column {min(further)!r}, and the first "
                        "row does not. Give all rows the same columns."
                    )
                metadata.write(_line(columns.get(name) for name in names))
        files.write_text(os.path.join(temporary, _CONFIG), _CONTENT)


def _line(values: Iterable[Any]) -> bytes:
    """Returns a line of metadata. It is never blank, because the projector skips blank lines."""
    line = "\t".join(re.sub(r"[\t\r\n]", " ", cell_text(value)) for value in values)
    return f"{line if line.strip() else f'(empty){line}'}\n".encode(errors="replace")
