"""Reads the rows of Parquet files as a stream."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.tasks.column_names import find_columns
from bert_tf.tasks.text_files import check_data_file

_ROWS_PER_BATCH = 1024
_BUFFER_BYTES = 1 << 19


def column_values(
    path: str, columns: Sequence[str | None], optional: Collection[str] = ()
) -> Iterator[tuple[int, list[Any]]]:
    """Yields the number of each row, from 1, and the row's values in the given columns.

    Args:
        path: A Parquet file.
        columns: The names of the columns; the value of None is None.
        optional: The columns that may be missing; a missing value is None.

    Raises:
        InputError: pyarrow is not installed, the file is missing or is not Parquet, or a column is
            missing or occurs twice.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            f"{path}: reading Parquet needs pyarrow, which is not installed. Install it with: pip "
            "install pyarrow."
        ) from error
    import tensorflow as tf

    check_data_file(path)
    with files.explain_read_errors(path, " as Parquet"), tf.io.gfile.GFile(path, "rb") as file:
        file.closed = False  # pyarrow reads this attribute, which GFile does not have
        # With `buffer_size`, pyarrow reads a row group page by page.
        table = pyarrow.parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES)
        positions = find_columns(path, table.schema_arrow.names, columns, optional)
        used = [
            name for name, position in zip(columns, positions, strict=True) if position is not None
        ]
        number = 0
        for batch in table.iter_batches(_ROWS_PER_BATCH, columns=used, use_threads=False):
            values = {name: _as_list(batch.column(name)) for name in used}
            missing = [None] * batch.num_rows
            for row in zip(*(values.get(name, missing) for name in columns), strict=True):
                number += 1
                yield number, list(row)


def _as_list(column: Any) -> list[Any]:
    """Converts a column to Python values; some programs write texts as binary columns."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    return (column.cast(pa.large_string()) if is_binary else column).to_pylist()
