"""Converts a served model to TFLite."""

from typing import Any

import tensorflow as tf

from bert_tf.export.formats import as_gate_error
from bert_tf.export.model_file import ModelFile
from bert_tf.export.served import ServedModel
from bert_tf.modeling.inputs import INPUT_NAMES, POSITIONS


def convert(served: ServedModel, file: ModelFile, length: int | None) -> bytes:
    """Returns a TFLite file of `served.forward` for one sequence.

    The batch has the size 1: TFLite had silently wrong masked-LM logits for some
    batches.

    Args:
        served: The model with float32 weights.
        file: The precision and the kind of inputs. The activations are float32; with
            int8, matrix products quantize them while the model runs. The inputs are
            texts, string [1], or `input_ids`, `input_mask` and `segment_ids`, int32 [1,
            S], and, for a masked LM, `masked_lm_positions`, int32 [1, P], where P is 1
            if there is a length.
        length: The number of tokens of the sequences; None for any length.

    Raises:
        GateError: TFLite cannot represent the model.
    """
    if file.takes_texts:
        specs = {
            name: tf.TensorSpec([1], tf.string, name=name) for name in served.text_names
        }
    else:
        specs = {
            name: tf.TensorSpec([1, length], tf.int32, name=name)
            for name in INPUT_NAMES
        }
        if served.takes_masks:
            positions = None if length is None else 1
            specs[POSITIONS] = tf.TensorSpec([1, positions], tf.int32, name=POSITIONS)

    def outputs(**inputs: Any) -> dict[str, Any]:
        if file.takes_texts:
            texts = [inputs[name] for name in served.text_names]
            inputs = _encoded(served, texts, length)
        elif file.has_metadata and length is None:
            inputs = _truncated(inputs, served.max_seq_length, served.tokenizer.sep_id)
        found = served.outputs(inputs)
        return {name: found[name] for name in served.lite_outputs}

    function = tf.function(outputs, autograph=False).get_concrete_function(**specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], served)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    converter.allow_custom_ops = file.takes_texts  # the operations of tensorflow_text
    if file.precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if file.precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    with as_gate_error("tflite"):
        return bytes(converter.convert())


def _encoded(
    served: ServedModel, texts: list[Any], length: int | None
) -> dict[str, Any]:
    """Returns the inputs of the model, int32 [1, S], for one text or pair.

    The texts are string [1] each. The ids are those of `BertTokenizer.encode`, except
    for those of `tokenize_in_lite`.
    """
    ids = map(served.tokenizer.tokenize_in_lite, texts)
    limit = served.max_seq_length  # `length`, if there is one
    packed = served.tokenizer.pack(
        *ids, seq_length=limit, trim_to_longest=length is None
    )
    # TFLite does not know that there is one row.
    return {
        name: tf.reshape(value, [1, length or -1]) for name, value in packed.items()
    }


def _truncated(inputs: dict[str, Any], limit: int, sep_id: int) -> dict[str, Any]:
    """Truncates a sequence that is too long for the model.

    The result is that of `BertTokenizer.encode`.

    MediaPipe does not truncate texts for a file without a fixed length.
    """
    is_too_long = tf.shape(inputs["input_ids"])[1] > limit
    cut = {name: value[:, :limit] for name, value in inputs.items()}
    position = tf.range(tf.shape(cut["input_ids"])[1])[tf.newaxis]
    is_last = is_too_long & (position == limit - 1)
    return {**cut, "input_ids": tf.where(is_last, sep_id, cut["input_ids"])}
