"""Reads the rows of Parquet files as a stream."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

from bert_tf.errors import InputError
from bert_tf.storage import files

_ROWS_PER_BATCH = 1024
_BUFFER_BYTES = 1 << 19


def rows(
    path: str,
    check: Callable[[str, Collection[str]], None],
    only: Collection[str | None] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each row, from 1, and the row's values by column.

    Args:
        path: A Parquet file.
        check: Called with the path and the names of all columns.
        only: The columns to read; None for all.

    Raises:
        InputError: pyarrow is not installed, or the file is not Parquet.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            f"{path} needs the package pyarrow: pip install bert-tf[parquet]."
        ) from error
    import tensorflow as tf

    with (
        files.explain_read_errors(path, " as Parquet"),
        tf.io.gfile.GFile(path, "rb") as file,
    ):
        file.closed = False  # pyarrow reads this attribute, which GFile does not have
        # With `buffer_size`, pyarrow reads a row group page by page.
        table = pyarrow.parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES)
        names = table.schema_arrow.names
        check(path, names)
        used = [name for name in names if only is None or name in only]
        number = 0
        for batch in table.iter_batches(
            _ROWS_PER_BATCH, columns=used, use_threads=False
        ):
            columns = [_as_list(batch.column(name)) for name in used]
            for place in range(batch.num_rows):  # also if there are no columns
                number += 1
                yield (
                    number,
                    {n: values[place] for n, values in zip(used, columns, strict=True)},
                )


def _as_list(column: Any) -> list[Any]:
    """Converts a column to Python values.

    Some programs write texts as binary columns.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    with contextlib.suppress(
        pa.ArrowInvalid
    ):  # bytes that are not text, such as images
        column = column.cast(pa.large_string()) if is_binary else column
    return column.to_pylist()
