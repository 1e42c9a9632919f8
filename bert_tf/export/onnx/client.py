"""Predicts with an ONNX file of bert-tf, without TensorFlow and bert-tf.

    pip install onnxruntime tokenizers
    python onnx_client.py ../onnx/int8.onnx "A good film." "Too long."

For a model of pairs, two texts in a row are a pair. From Python:

    model = onnx_client.Model("../onnx/int8.onnx")
    model(["A good film.", "Too long."])  # pairs: [("A question.", "A sentence."), ...]
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

# ONNX Runtime sends events to its maker, unless this variable is set before its import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers


class Model:
    """A classifier, a regression model or a model of vectors, with its tokenizer.

    Args:
        path: The ONNX file, which contains vocabulary and labels.
        num_threads: The number of threads; 0 for all cores.
    """

    def __init__(self, path: str, num_threads: int = 0) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        stored = self._session.get_modelmeta().custom_metadata_map
        content = json.loads(stored["bert_tf.json"])
        self.facts: dict[str, Any] = content["facts"]
        self._prompt: str = self.facts.get("embedding", {}).get("prompt", "")
        self._length: int = content["settings"]["max_seq_length"]
        vocabulary = stored["vocab.txt"].split("\n")[:-1]
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self._tokenizer = Tokenizer(
            models.WordPiece(self._ids, unk_token="[UNK]", max_input_chars_per_word=200)
        )
        self._tokenizer.normalizer = normalizers.BertNormalizer(
            lowercase=content["do_lower_case"]
        )
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def __call__(self, texts: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns the prediction for each text, or each pair of texts, of one batch."""
        rows = [
            self._encode(*([each] if isinstance(each, str) else each)) for each in texts
        ]
        if not rows:
            return []
        shape = (len(rows), max(len(ids) for ids, _ in rows))
        names = ("input_ids", "input_mask", "segment_ids")
        arrays: dict[str, Any] = {name: np.zeros(shape, np.int32) for name in names}
        arrays["input_ids"] += self._ids["[PAD]"]
        for row, (ids, segments) in enumerate(rows):
            for name, values in zip(names, (ids, 1, segments), strict=True):
                arrays[name][row, : len(ids)] = values
        (output,) = self._session.get_outputs()
        (found,) = self._session.run(None, arrays)
        return [self._prediction(output.name, row.tolist()) for row in found]

    def _encode(self, *texts: str) -> tuple[list[int], list[int]]:
        """Returns ids and segments.

        A pair loses tokens of its longer text, or of the second.
        """
        parts = [
            self._tokenizer.encode(self._prompt + each, add_special_tokens=False).ids
            for each in texts
        ]
        while sum(map(len, parts)) > self._length - 1 - len(parts):
            max(reversed(parts), key=len).pop()
        ids, segments = [self._ids["[CLS]"]], [0]
        for segment, part in enumerate(parts):
            ids += [*part, self._ids["[SEP]"]]
            segments += [segment] * (len(part) + 1)
        return ids, segments

    def _prediction(self, name: str, value: Any) -> dict[str, Any]:
        if name != "probabilities":
            return {name: value}
        found = dict(zip(self.facts["labels"], value, strict=True))
        best = {
            label: found[label]
            for label in sorted(found, key=lambda each: -found[each])
        }
        if self.facts.get("task_type") == "multi_label":
            threshold = self.facts["threshold"]
            return {
                "labels": [n for n in found if found[n] >= threshold],
                "probabilities": best,
            }
        label = next(iter(best))
        return {"label": label, "probability": best[label], "probabilities": best}


if __name__ == "__main__":
    _model = Model(sys.argv[1])
    _texts = sys.argv[2:]
    _rows = (
        zip(_texts[::2], _texts[1::2], strict=True)
        if _model.facts.get("pair")
        else _texts
    )
    for _each in _model(list(_rows)):
        print(json.dumps(_each, ensure_ascii=False))
