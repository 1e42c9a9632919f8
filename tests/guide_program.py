"""Extracts the program of docs/python.md, and writes the checkpoints that it loads."""

import pathlib
import re

import bert_tf

DOCUMENT = pathlib.Path(__file__).parent.parent / "docs/python.md"


def program(document: pathlib.Path = DOCUMENT) -> str:
    """Returns the code in a document; each line has the same number as in the document.

    The code consists of the blocks that are marked as Python, and of the last cells in the tables
    that compare bert-tf with another project.
    """
    lines, in_block, compares = [], False, False
    for line in document.read_text("utf-8").split("\n"):
        code = ""
        if line.startswith("```"):
            in_block = line == "```python"
        elif in_block:
            code = line
        elif line.startswith("|"):
            last_cell = line.split("|")[-2].strip()
            compares = compares or last_cell == "bert-tf"
            code = "; ".join(re.findall(r"`([^`]+)`", last_cell)) if compares else ""
        else:
            compares = False
        lines.append(code)
    return "\n".join(lines)


def write_checkpoints(folder: pathlib.Path) -> None:
    """Writes tiny models with random weights under the names that the document uses."""
    words = re.findall(r"[a-z]+|[.,]", DOCUMENT.read_text("utf-8").lower())
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = bert_tf.BertTokenizer([*special, *sorted(set(words))])
    config = bert_tf.BertConfig.named("tiny", tokenizer.vocab_size, initializer_range=0.08)
    model = bert_tf.BertPretrainer(config, seed=1)
    names = {"uncased_L-2_H-128_A-2": "google", "bert-base-uncased": "hugging_face"}
    for name, dialect in names.items():
        bert_tf.save_checkpoint(model, tokenizer, str(folder / name), dialect)
