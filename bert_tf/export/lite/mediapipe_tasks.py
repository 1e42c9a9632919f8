"""Runs a TFLite file in MediaPipe's tasks for texts, to compare the scores."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.export.gate_process import GateError

# Larger differences of scores are differences of the ids and not of the computation.
_TOLERANCE = 1e-3
# Texts for which MediaPipe's tokenizer has the same ids as `BertTokenizer`.
_PLAIN = re.compile(rb"(?:[A-Za-z0-9]{1,30}[ .,]{0,3})*")


def compare(
    path: str, texts: Sequence[bytes], expected: np.ndarray, task: str, num_reported: int
) -> dict[str, Any]:
    """Runs texts in MediaPipe, whose tokenizer differs from `BertTokenizer`.

    MediaPipe lower-cases only ASCII, keeps accents, splits fewer kinds of characters, and has a
    lower limit for the length of words.

    Args:
        path: A TFLite file with metadata.
        texts: N texts, UTF-8.
        expected: float32 [N, C], the outputs of the file with the tokenizer of bert-tf.
        task: "classifier" or "embedder".
        num_reported: The number of texts, from the end, that the report is about.

    Returns:
        The report: `num_texts`; `different_outputs`, the share of texts with other outputs than
        those of `Predictor` for the same file; and `different_labels`, the share of texts with
        another best label, 0 for vectors.

    Raises:
        GateError: MediaPipe cannot run the file, or has other outputs for a plain English text.
    """
    is_classifier = task == "classifier"
    run = _classify if is_classifier else _embed
    try:
        actual = run(
            files.read_bytes(path),
            [text.decode("utf-8", "ignore") for text in texts],
            expected.shape[1],
        )
    except (RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise GateError(
            f"{path} does not run in MediaPipe: {reason:.300} Nothing was exported. Uninstall "
            "mediapipe to export the files without its metadata."
        ) from error
    is_other = np.abs(actual - expected).max(axis=1) > _TOLERANCE
    for text in (text for text, other in zip(texts, is_other, strict=True) if other):
        if _PLAIN.fullmatch(text):
            raise GateError(
                f"{path} has other outputs in MediaPipe for the text {text[:60]!r}. Nothing was "
                "exported."
            )
    has_other_label = is_classifier & (actual.argmax(axis=1) != expected.argmax(axis=1))
    return {
        "num_texts": num_reported,
        "different_outputs": float(is_other[-num_reported:].mean()),
        "different_labels": float(has_other_label[-num_reported:].mean()),
    }


def _classify(model: bytes, texts: Sequence[str], num_labels: int) -> np.ndarray:
    """Returns the probabilities of texts: float32 [N, labels]."""
    from mediapipe.tasks.python import BaseOptions
    from mediapipe.tasks.python import text as tasks

    options = tasks.TextClassifierOptions(BaseOptions(model_asset_buffer=model))
    probabilities: np.ndarray = np.zeros([len(texts), num_labels], np.float32)
    with tasks.TextClassifier.create_from_options(options) as task:
        for row, each in enumerate(texts):
            for category in task.classify(each).classifications[0].categories:
                probabilities[row, category.index] = category.score
    return probabilities


def _embed(model: bytes, texts: Sequence[str], width: int) -> np.ndarray:
    """Returns the vectors of texts: float32 [N, H]."""
    from mediapipe.tasks.python import BaseOptions
    from mediapipe.tasks.python import text as tasks

    options = tasks.TextEmbedderOptions(BaseOptions(model_asset_buffer=model))
    with tasks.TextEmbedder.create_from_options(options) as task:
        vectors: list[Any] = [task.embed(each).embeddings[0].embedding for each in texts]
    return np.reshape(np.array(vectors, np.float32), [len(texts), width])
