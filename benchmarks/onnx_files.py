r"""Writes the ONNX files for benchmarks/serving.py and benchmarks/lite_metric.py.

Runs in an environment with torch, transformers, onnx, onnxruntime and sympy, without
bert-tf. Writes float32.onnx and int8.onnx (ONNX Runtime's dynamic quantization) of a
folder of Hugging Face: for a classifier the logits, else the mean of the token vectors,
with length 1. The files whose names start with fused are those after ONNX Runtime's
optimizer for transformers; per_channel states a scale for each output of a product.

    python run_scripts/convert_checkpoint.py --from=/tmp/sst2 --to=/tmp/hf \
        --dialect=hugging_face
    /tmp/torch/bin/python benchmarks/onnx_files.py /tmp/hf /tmp/onnx
"""

import json
import os
import sys

import torch
import transformers
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.optimizer import optimize_model

NAMES = ("input_ids", "attention_mask", "token_type_ids")


class Embedder(torch.nn.Module):
    """The mean of the token vectors, with length 1."""

    def __init__(self, path):
        super().__init__()
        self.bert = transformers.BertModel.from_pretrained(
            path, attn_implementation="eager"
        )

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
    """Writes all files."""
    with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
        architectures = json.load(file).get("architectures") or [""]
    is_classifier = "SequenceClassification" in architectures[0]
    model = (Classifier if is_classifier else Embedder)(path).eval()
    os.makedirs(folder, exist_ok=True)
    single = os.path.join(folder, "float32.onnx")
    axes = {name: {0: "batch", 1: "length"} for name in NAMES}
    ids = torch.ones([2, 16], dtype=torch.int64)
    torch.onnx.export(
        model, (ids, ids, ids * 0), single,
        input_names=list(NAMES), output_names=["output"],
        dynamic_axes={**axes, "output": {0: "batch"}}, dynamo=False,
    )  # fmt: skip
    fused = os.path.join(folder, "fused_float32.onnx")
    config = transformers.AutoConfig.from_pretrained(path)
    optimize_model(
        single,
        "bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
    ).save_model_to_file(fused)
    for source, name, per_channel in (
        (single, "int8", False),
        (fused, "fused_int8", False),
        (fused, "fused_int8_per_channel", True),
    ):
        quantize_dynamic(
            source, os.path.join(folder, f"{name}.onnx"), per_channel=per_channel,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},
        )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
