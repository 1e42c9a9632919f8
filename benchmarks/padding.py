"""Times an encoder step with and without padding, and with derived gradients.

The derived gradients are those of attention.

    python benchmarks/padding.py float32

A step is the forward pass and the backward pass with dropout, without an optimizer; or
the forward pass alone. The model has 6 layers of 384 values. The variants take turns on
the same batches.
"""

import os
import sys
import time

os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.modeling import BertEncoder

CONFIG = BertConfig(
    vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
    intermediate_size=1536, max_position_embeddings=512,
)  # fmt: skip
# Batch size, length, mean and standard deviation of the numbers of tokens, which are
# cut to [4, length]. The first sequence has the full length.
BATCHES = {
    "WNUT-17": (32, 64, 28, 15), "MRPC": (32, 80, 54, 14), "SQuAD": (16, 320, 240, 70),
    "full": (32, 128, 1000, 0),
}  # fmt: skip
REPEATS = 7


def make_batch(size, length, mean, deviation):
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.normal(mean, deviation, size).astype(int), 4, length)
    lengths[0] = length
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    return {"input_ids": rng.integers(1, 30522, mask.shape).astype(np.int32) * mask,
            "input_mask": mask, "segment_ids": np.zeros_like(mask)}  # fmt: skip


def make_step(model, trains, skips_padding, derived):
    """Returns a step.

    With `derived`, its attention has the gradients that TensorFlow derives.
    """
    variables = [variable.value for variable in model.trainable_variables]
    names = ("input_ids", "input_mask", "segment_ids")

    @tf.function(autograph=False, input_signature=[
        {name: tf.TensorSpec([None, None], tf.int32) for name in names},
    ])  # fmt: skip
    def step(inputs):
        model.skip_padding = skips_padding
        with tf.GradientTape() as tape, model.dropout_seeds.use(tf.constant([1, 2])):
            outputs = model(inputs, training=trains, attention_maps=derived)
            mask = tf.cast(inputs["input_mask"], tf.float32)[:, :, None]
            loss = tf.reduce_sum(
                tf.cast(outputs["sequence_output"], tf.float32) ** 2 * mask
            )
        if not trains:
            return loss
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        return loss + tf.add_n(
            [tf.reduce_sum(tf.convert_to_tensor(each)) for each in gradients]
        )

    return step


def main(precision="float32"):
    dtype = "float32" if precision == "float32" else f"mixed_{precision}"
    model = BertEncoder(CONFIG, seed=1, dtype=dtype)
    variants = {
        "training, derived gradients": make_step(model, True, False, True),
        "training, padded": make_step(model, True, False, False),
        "training, tokens only": make_step(model, True, True, False),
        "inference, padded": make_step(model, False, False, False),
        "inference, tokens only": make_step(model, False, True, False),
    }
    for name, shape in BATCHES.items():
        batch = make_batch(*shape)
        secs = {variant: [] for variant in variants}
        for _ in range(REPEATS + 1):  # the first one is a warm-up
            for variant, step in variants.items():
                start = time.perf_counter()
                float(step(batch))
                secs[variant].append(time.perf_counter() - start)
        print(f"{precision}, {name}: {batch['input_mask'].mean():.0%} tokens")
        for variant, times in secs.items():
            print(f"  {variant}: {1000 * np.median(times[1:]):.0f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
