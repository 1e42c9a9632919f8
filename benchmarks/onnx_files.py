r"""Writes the ONNX files that benchmarks/serving.py and benchmarks/lite_metric.py compare with.

Runs in an environment with torch, transformers, onnx and onnxruntime, without bert-tf. Writes
float32.onnx and int8.onnx (ONNX Runtime's dynamic quantization) of a folder of Hugging Face: for a
classifier the logits, else the mean of the token vectors, with length 1.

    python run_scripts/convert_checkpoint.py --from=/tmp/sst2 --to=/tmp/hf --dialect=hugging_face
    /tmp/torch/bin/python benchmarks/onnx_files.py /tmp/hf /tmp/onnx
"""

import json
import os
import sys

import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic

NAMES = ("input_ids", "attention_mask", "token_type_ids")


class Embedder(torch.nn.Module):
    """The mean of the token vectors, with length 1."""

    def __init__(self, path):
        super().__init__()
        self.bert = transformers.BertModel.from_pretrained(path, attn_implementation="eager")

    def forward(self, input_ids, attention_mask, token_type_ids):
        """Returns float32 [B, H]."""
        vectors = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        weights = attention_mask[..., None].to(vectors.dtype)
        mean = (vectors * weights).sum(1) / weights.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(mean, dim=-1)


class Classifier(torch.nn.Module):
    """The logits of a classifier."""

    def __init__(self, path):
        super().__init__()
        self.model = transformers.BertForSequenceClassification.from_pretrained(
            path, attn_implementation="eager"
        )

    def forward(self, input_ids, attention_mask, token_type_ids):
        """Returns float32 [B, labels]."""
        return self.model(input_ids, attention_mask, token_type_ids).logits


def main(path, folder):
    """Writes both files."""
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        architectures = json.load(file).get("architectures") or [""]
    is_classifier = "SequenceClassification" in architectures[0]
    model = (Classifier if is_classifier else Embedder)(path).eval()
    os.makedirs(folder, exist_ok=True)
    single = os.path.join(folder, "float32.onnx")
    axes = {name: {0: "batch", 1: "length"} for name in NAMES}
    ids = torch.ones([2, 16], dtype=torch.int64)
    torch.onnx.export(
        model, (ids, ids, ids * 0), single, input_names=list(NAMES), output_names=["output"],
        dynamic_axes={**axes, "output": {0: "batch"}}, dynamo=False,
    )  # fmt: skip
    quantize_dynamic(single, os.path.join(folder, "int8.onnx"), weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main(*sys.argv[1:])
