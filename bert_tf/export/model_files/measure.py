"""Load time and latency of a file."""

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bert_tf.export.model_files.load import forward_of
from bert_tf.export.model_files.model_file import ModelFile
from bert_tf.export.served import ServedModel
from bert_tf.modeling.inputs import INPUT_NAMES, POSITIONS

_LENGTHS = (32, 128)
_NUM_THREADS = (1, 2)
_MIN_SECS, _MIN_RUNS = 0.3, 5


def measure(file: ModelFile, served: ServedModel, length: int | None) -> dict[str, Any]:
    """Measures a file with one sequence at a time.

    Args:
        file: The file.
        served: The model.
        length: The number of tokens of the sequences; None for 32 and 128.

    Returns:
        `load_ms`, the time from a path to the end of the first run, which brings the
        weights into the layout of the CPU, and `latency_ms`, the median time of further
        runs by the number of tokens and threads.
    """
    longest = length or served.max_seq_length
    lengths = [each for each in _LENGTHS if each <= longest and not length] or [longest]
    latency = {}
    for num_threads in _NUM_THREADS:
        start = time.perf_counter()
        forward = forward_of(file.path, num_threads, served.outputs_of_tokens)
        forward.run(_inputs(served, lengths[0], file.takes_texts))
        load_ms = 1e3 * (time.perf_counter() - start)
        for each in lengths:
            inputs = _inputs(served, each, file.takes_texts)
            name = f"1x{each}, {num_threads} thread{'s' if num_threads > 1 else ''}"
            latency[name] = _median_ms(functools.partial(forward.run, inputs))
    return {"load_ms": load_ms, "latency_ms": latency}


def _inputs(
    served: ServedModel, length: int, takes_texts: bool
) -> dict[str, np.ndarray]:
    """Returns the inputs of one sequence of a length, which consists of unknown words."""
    if takes_texts:
        names = served.text_names
        words = (length - 1 - len(names)) // len(names)
        return {name: np.array([b"? " * words], object) for name in names}
    inputs: dict[str, np.ndarray] = {
        name: np.zeros([1, length], np.int32) for name in INPUT_NAMES
    }
    inputs["input_ids"] += served.tokenizer.unk_id
    inputs["input_mask"] += 1
    if served.takes_masks:
        inputs[POSITIONS] = np.zeros([1, 1], np.int32)
    return inputs


def _median_ms(run: Callable[[], Any]) -> float:
    """Returns the median time of a function, in milliseconds."""
    run()
    times: list[float] = []
    while len(times) < _MIN_RUNS or sum(times) < _MIN_SECS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))
