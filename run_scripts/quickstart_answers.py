"""Classifies the test split with an exported model, without this project.

The quickstart runs this program. It may import only tensorflow, tensorflow_text and the
standard library, to show that an exported model needs no other package.
"""

import json
import sys
import time

import tensorflow as tf
import tensorflow_text  # noqa: F401  # registers the operations of the tokenizer


def classify(model_dir: str, test_file: str, output_file: str) -> None:
    """Prints some predictions, and writes accuracy and time to `output_file`, as JSON.

    `test_file` has rows of a text and its label, after a header line.
    """
    model = tf.saved_model.load(model_dir).signatures["serving_default"]
    with open(test_file, encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    texts = [row[0] for row in rows]

    # The first call takes longer, so it is not measured.
    model(text=tf.constant(texts[:64]))
    started = time.monotonic()
    predictions: list[tuple[str, float]] = []
    for first in range(0, len(texts), 64):
        answer = model(text=tf.constant(texts[first : first + 64]))
        labels = [label.decode() for label in answer["label"].numpy()]
        probabilities = answer["probabilities"].numpy().max(axis=1).tolist()
        predictions += zip(labels, probabilities, strict=True)
    secs = time.monotonic() - started

    assert "bert_tf" not in sys.modules
    for text, (label, probability) in zip(texts[:5], predictions, strict=False):
        print(f"{label:12s} {probability:.2f}  {text[:100]}")

    correct = sum(
        label == row[1] for (label, _), row in zip(predictions, rows, strict=True)
    )
    with open(output_file, "w", encoding="utf-8") as file:
        json.dump(
            {"texts": len(texts), "secs": secs, "accuracy": correct / len(texts)}, file
        )


if __name__ == "__main__":
    classify(*sys.argv[1:])
