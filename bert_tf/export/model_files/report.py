"""The report of files, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

# The names of the formats.
NAMES = {"tflite": "TFLite", "onnx": "ONNX"}
TEXT_DIFFERENCES = """\
The files whose names end with `_text.tflite` contain the tokenizer. Its ids may differ from those
of `BertTokenizer` for four kinds of text: bytes that are not valid UTF-8; a capital sigma at the
end of a word; words of more than 200 characters, which become [UNK] only if they have more than 800
bytes; and the few combining characters that canonical ordering moves and normalization does not
remove as accents. These files need the operations of tensorflow-text.
"""


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the report of files of one format as a table of Markdown.

    Args:
        rows: The report of each file, as `measure` and `file_gate.check` return it.
    """
    latencies = list(rows[0]["latency_ms"])
    names = ["file", "MB", "load, ms", *(f"{each}, ms" for each in latencies), "metric"]
    lines = [names, ["---"] * len(names)]
    for row in rows:
        metric = row["metric"]
        lines.append(
            [
                row["file"],
                f"{row['size_bytes'] / 1e6:.1f}",
                f"{row['load_ms']:.0f}",
                *(f"{row['latency_ms'][each]:.2f}" for each in latencies),
                f"{metric['name']} {metric['exported']:.2f}" if metric else "",
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
