r"""Times pretraining steps on an accelerator: Keras on JAX, and transformers.

    pip install jax[cuda13] keras torch transformers
    KERAS_BACKEND=jax python benchmarks/accelerator.py

A step is the forward pass and the backward pass of the base model in bfloat16, with
dropout 0.1 and the losses of masked tokens and next sentences, without an optimizer.
Batches have no padding. "derived gradients" is bert-tf with the gradients of attention
that JAX derives. transformers computes logits at every position, and runs its attention
in one kernel of PyTorch. The last column of a line is the share of the speed of a
product of two matrices of 8192 x 8192.
"""

import os
import statistics
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
# JAX and PyTorch share the memory of the accelerator.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import keras
import training

from bert_tf.modeling import BertPretrainer, costs, fused_operations

SHAPES = ["base-256x128", "base-64x512"]
STEPS, TURNS = 10, 5
CONFIG = training.config_of("base")


def derived_attention(query, key, value, bias, keep, scale):
    """Computes `fused_operations.attention` with derived gradients."""
    products = keras.ops.matmul(query, keras.ops.transpose(key, (0, 1, 3, 2)))
    scores = products / query.shape[-1] ** 0.5 + bias
    kept = (
        keras.ops.softmax(scores, axis=-1) * keras.ops.cast(keep, query.dtype) * scale
    )
    return keras.ops.matmul(kept, value)


def make_bert_tf(batch, attention):
    """Returns a function that runs a number of steps."""
    fused_operations.attention = attention
    model = BertPretrainer(CONFIG, seed=0, dtype="mixed_bfloat16")
    weights = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]

    def loss(weights, batch, seed):
        with model.dropout_seeds.use(seed):
            outputs, _ = model.stateless_call(weights, others, batch, training=True)
        total = 0.0
        for logits, labels in (
            (outputs["masked_lm_logits"], batch["masked_lm_ids"]),
            (outputs["next_sentence_logits"], batch["next_sentence_labels"][:, 0]),
        ):
            log_probs = jax.nn.log_softmax(logits)
            total -= jnp.take_along_axis(log_probs, labels[..., None], -1).mean()
        return total

    step = jax.jit(jax.value_and_grad(loss))
    batch = {name: jnp.asarray(value) for name, value in batch.items()}

    def run(steps):
        for number in range(steps):
            result = step(weights, batch, jnp.asarray([number, 0], jnp.int32))
        jax.block_until_ready(result)

    return run


def make_transformers(batch, compiled):
    """Returns a function that runs a number of steps."""
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = (
        transformers.BertForPreTraining(transformers.BertConfig()).train().to(device)
    )
    inputs = training.transformers_inputs(batch, device)
    call = torch.compile(model) if compiled else model

    def run(steps):
        for _ in range(steps):
            with torch.autocast(device, torch.bfloat16):
                loss = call(**inputs).loss
            loss.backward()
            model.zero_grad(set_to_none=True)
        loss.item()  # waits for the device

    return run


def matmul_speed(size=8192):
    """Returns the FLOP/s of a product of two bfloat16 matrices."""
    a = jax.random.normal(jax.random.key(0), (size, size), jnp.bfloat16)
    product = jax.jit(jnp.matmul)
    secs = []
    for _ in range(20):
        start = time.perf_counter()
        product(a, a).block_until_ready()
        secs.append(time.perf_counter() - start)
    return 2 * size**3 / min(secs)


def main():
    print(
        jax.devices()[0].device_kind, "jax", jax.__version__, "keras", keras.__version__
    )
    peak = matmul_speed()
    print(f"matrix products: {peak / 1e12:.0f} TFLOP/s")
    own = fused_operations.attention
    for shape in SHAPES:
        _, *sizes = training.SHAPES[shape]
        flops, batch = (
            costs.training_step_flops(CONFIG, *sizes),
            training.batch_of(shape),
        )
        systems = {
            "bert-tf": lambda batch=batch: make_bert_tf(batch, own),
            "bert-tf, derived gradients": lambda batch=batch: make_bert_tf(
                batch, derived_attention
            ),
            "transformers": lambda batch=batch: make_transformers(batch, False),
            "transformers, compiled": lambda batch=batch: make_transformers(
                batch, True
            ),
        }
        runs = {}
        for name, make in systems.items():
            start = time.perf_counter()
            runs[name] = make()
            runs[name](1)
            print(
                f"{name}: first step after {time.perf_counter() - start:.0f} s",
                flush=True,
            )
        secs = {name: [] for name in runs}
        for _ in range(TURNS):
            for name, run in runs.items():
                start = time.perf_counter()
                run(STEPS)
                secs[name].append((time.perf_counter() - start) / STEPS)
        for name, times in secs.items():
            found = statistics.median(times)
            print(
                f"{shape}, {name}: {found * 1e3:.1f} ms, "
                f"{sizes[0] * sizes[1] / found:,.0f} tokens/s, "
                f"{flops / found / peak:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
