r"""Times training with `fit` on an accelerator: Keras on JAX, and transformers.

    pip install jax[cuda13] keras torch transformers
    KERAS_BACKEND=jax python benchmarks/jax_fit.py

TensorFlow is not needed. Both systems train the base model in bfloat16 with float32
weights and dropout 0.1. A step consists of forward pass, backward pass, clipping by the
global norm, and Adam with weight decay. Batches have no padding. bert-tf runs
`BertPretrainer.fit` with `AdamWeightDecay`, and predicts 20 (of 128 tokens) or 76 (of
512) masked tokens, as released. transformers is compiled, runs its attention in one
kernel of PyTorch, and computes logits at every position. The systems run in turns; the
medians are printed, and the share of the speed of a product of two matrices of 8192 x
8192. `--smoke` tries everything with a tiny model.
"""

import os
import statistics
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
# JAX and PyTorch share the memory of the accelerator.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import accelerator
import jax
import keras
import training

from bert_tf.modeling import costs

IS_SMOKE = "--smoke" in sys.argv
SHAPES = ["tiny"] if IS_SMOKE else ["base-256x128", "base-64x512"]
STEPS, TURNS = (2, 2) if IS_SMOKE else (20, 5)
BUDGET_SECS = 330  # no further turns after this time


class Repeated(keras.utils.PyDataset):
    """Gives the same batch to each step."""

    def __init__(self, batch):
        super().__init__()
        self._batch = training.fit_data(batch)

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        return self._batch


def make_bert_tf(shape):
    """Returns a function that runs `STEPS` steps, and returns their mean loss."""
    model = training.compile_pretrainer(shape, dtype="mixed_bfloat16")
    data = Repeated(training.batch_of(shape))
    return lambda: model.fit(data, verbose=0).history["loss"][-1]


def make_transformers(shape):
    """Returns a function that runs `STEPS` steps, and returns the last loss."""
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = transformers.BertConfig(**training.config_of(shape).to_dict())
    model = transformers.BertForPreTraining(options).train().to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-7, weight_decay=training.DECAY, fused=True
    )
    inputs = training.transformers_inputs(training.batch_of(shape), device)
    call = torch.compile(model)

    def run():
        for _ in range(STEPS):
            with torch.autocast(device, torch.bfloat16):
                loss = call(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()  # waits for the device

    return run


def start_systems(shape):
    """Returns the functions that run steps, after their first call."""
    runs = {}
    makers = {"bert-tf, fit": make_bert_tf, "transformers, compiled": make_transformers}
    for name, make in makers.items():
        start = time.perf_counter()
        try:
            run = make(shape)
            loss = run()
        except Exception as error:  # such as too little memory for both
            print(f"{name} is skipped: {str(error).splitlines()[0][:200]}", flush=True)
            continue
        secs = time.perf_counter() - start
        print(
            f"{shape}, {name}: first {STEPS} steps after {secs:.0f} s, loss {loss:.3f}"
        )
        runs[name] = run
    return runs


def main():
    began = time.perf_counter()
    versions = f"jax {jax.__version__}, keras {keras.__version__}"
    print(jax.devices()[0].device_kind, versions, flush=True)
    peak = accelerator.matmul_speed(512 if IS_SMOKE else 8192)
    print(f"matrix products: {peak / 1e12:.0f} TFLOP/s", flush=True)

    for shape in SHAPES:
        _, *sizes = training.SHAPES[shape]
        config = training.config_of(shape)
        flops = costs.training_step_flops(config, *sizes)

        # One turn of each system after the other.
        runs = start_systems(shape)
        secs = {name: [] for name in runs}
        for _ in range(TURNS):
            for name, run in runs.items():
                if not secs[name] or time.perf_counter() - began < BUDGET_SECS:
                    start = time.perf_counter()
                    run()
                    secs[name].append((time.perf_counter() - start) / STEPS)

        for name, times in secs.items():
            found = statistics.median(times)
            print(
                f"{shape}, {name}: {1 / found:.2f} steps/s, {found * 1e3:.1f} ms "
                f"({min(times) * 1e3:.1f} to {max(times) * 1e3:.1f}), "
                f"{sizes[0] * sizes[1] / found:,.0f} tokens/s, {flops / found / peak:.0%} "
                "of the peak",
                flush=True,
            )
    assert "tensorflow" not in sys.modules
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
