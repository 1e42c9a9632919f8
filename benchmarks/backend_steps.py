r"""Times the first `fit` and a training step of bert-tf and keras-hub on one backend.

    pip install --target=/tmp/keras_hub --no-deps \
        keras-hub kagglehub kagglesdk sentencepiece regex
    KERAS_BACKEND=jax python benchmarks/backend_steps.py --keras_hub_path=/tmp/keras_hub

Both train the small model (16 sequences of 128 tokens, float32, dropout 0.1, AdamW with
clipping) with `fit` on the backend that KERAS_BACKEND names. Each runs in a process of
its own. The processes run in turns; the others wait. bert-tf also has the next-sentence
head, which keras-hub lacks. The first `fit` includes the building and compilation of
the model, but not the imports.
"""

import os
import statistics
import sys
import time

import training
import turns
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("system", "", "Internal: the system that a process runs.")
SHAPE, STEPS, TURNS = "small", 3, 4


def make_bert_tf(batch):
    """Returns a model and the batch for its `fit`."""
    return training.compile_pretrainer(SHAPE), training.fit_data(batch)


def make_keras_hub(batch):
    """Returns a model and the batch for its `fit`."""
    import keras
    import keras_hub

    config = training.config_of(SHAPE)
    backbone = keras_hub.models.BertBackbone(
        config.vocab_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.hidden_size,
        config.intermediate_size,
        dropout=training.DROPOUT,
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(
        training.RATE, weight_decay=training.DECAY, global_clipnorm=training.CLIP
    )
    model.compile(
        optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    inputs = {
        "token_ids": batch["input_ids"],
        "padding_mask": batch["input_mask"],
        "segment_ids": batch["segment_ids"],
        "mask_positions": batch["masked_lm_positions"],
    }
    return model, (inputs, batch["masked_lm_ids"], batch["masked_lm_weights"])


def work(system):
    """Runs `fit` for each line of standard input, and prints the seconds."""
    import keras
    import numpy as np

    make = make_bert_tf if system == "bert-tf" else make_keras_hub
    if system == "bert-tf":
        from bert_tf import AdamWeightDecay, BertPretrainer  # noqa: F401
    else:
        import keras_hub  # noqa: F401

    built = time.perf_counter()
    model, data = make(training.batch_of(SHAPE))
    # Each `fit` has several equal batches.
    inputs, targets, weights = keras.tree.map_structure(
        lambda each: np.concatenate([each] * STEPS), data
    )
    assert keras.backend.backend() == os.environ["KERAS_BACKEND"]
    for number, _ in enumerate(sys.stdin):
        start = time.perf_counter() if number else built
        model.fit(inputs, targets, sample_weight=weights, batch_size=16, verbose=0)
        print(f"SECS {time.perf_counter() - start}", flush=True)


def main(_):
    if FLAGS.system:
        work(FLAGS.system)
        return

    path = os.pathsep.join([FLAGS.keras_hub_path, os.environ.get("PYTHONPATH", "")])
    processes = {
        system: turns.start([__file__, f"--system={system}"], PYTHONPATH=path)
        for system in ("bert-tf", "keras-hub")
    }
    for system, (first, *others) in turns.take(processes, 1 + TURNS).items():
        step = statistics.median(others) / STEPS
        print(
            f"{system}: first fit {first:.1f} s, step {step * 1e3:.0f} ms", flush=True
        )


if __name__ == "__main__":
    app.run(main)
