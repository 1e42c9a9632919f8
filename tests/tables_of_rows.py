"""Writes tables of rows in the format of a file name."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet


def write_rows(path, rows):
    """Writes rows, whose first one has the columns, and returns the path."""
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
    elif path.suffix == ".jsonl":
        path.write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            delimiter = "\t" if path.suffix == ".tsv" else ","
            writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    return str(path)
