"""Predicts with an ONNX file of bert-tf, without TensorFlow and bert-tf.

    pip install onnxruntime tokenizers
    python onnx_client.py ../onnx/int8.onnx "A good film." "Too long."

For a model of pairs, two texts in a row are a pair. From Python:

    model = onnx_client.Model("../onnx/int8.onnx")
    model(["A good film.", "Too long."])  # pairs: [("A question.", "A sentence."), ...]
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors


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
        tokens = {token: row for row, token in enumerate(stored["vocab.txt"].split("\n")[:-1])}
        self._tokenizer = Tokenizer(
            models.WordPiece(tokens, unk_token="[UNK]", max_input_chars_per_word=200)
        )
        self._tokenizer.normalizer = normalizers.BertNormalizer(lowercase=content["do_lower_case"])
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        sep, cls = (("[SEP]", tokens["[SEP]"]), ("[CLS]", tokens["[CLS]"]))
        self._tokenizer.post_processor = processors.BertProcessing(sep, cls)
        self._tokenizer.enable_truncation(content["settings"]["max_seq_length"])
        self._tokenizer.enable_padding(pad_id=tokens["[PAD]"])

    def __call__(self, texts: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns the prediction for each text, or each pair of texts, of one batch."""
        encoded = self._tokenizer.encode_batch(list(texts))
        inputs = {
            "input_ids": [each.ids for each in encoded],
            "input_mask": [each.attention_mask for each in encoded],
            "segment_ids": [each.type_ids for each in encoded],
        }
        arrays = {name: np.array(rows, np.int32) for name, rows in inputs.items()}
        (output,) = self._session.get_outputs()
        (values,) = self._session.run(None, arrays)
        return [self._prediction(output.name, row.tolist()) for row in values]

    def _prediction(self, name: str, value: Any) -> dict[str, Any]:
        if name != "probabilities":
            return {name: value}
        found = dict(zip(self.facts["labels"], value, strict=True))
        best = {label: found[label] for label in sorted(found, key=lambda each: -found[each])}
        if self.facts.get("task_type") == "multi_label":
            threshold = self.facts["threshold"]
            return {"labels": [n for n in found if found[n] >= threshold], "probabilities": best}
        label = next(iter(best))
        return {"label": label, "probability": best[label], "probabilities": best}


if __name__ == "__main__":
    _model, _texts = Model(sys.argv[1]), sys.argv[2:]
    _rows = zip(_texts[::2], _texts[1::2], strict=True) if _model.facts.get("pair") else _texts
    for _each in _model(list(_rows)):
        print(json.dumps(_each, ensure_ascii=False))
