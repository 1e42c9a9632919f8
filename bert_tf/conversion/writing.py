"""`write_weights` in any dialect, and `convert`: from one to another, checked by reading it back.

Imports layer 0, `modeling`, and the other modules here.
"""

import dataclasses
from typing import Any

import numpy as np

from bert_tf import weights as our_folder
from bert_tf.config import BertConfig
from bert_tf.conversion import google, huggingface
from bert_tf.conversion.reading import read_weights
from bert_tf.conversion.weights import Weights, assign
from bert_tf.errors import InputError
from bert_tf.modeling import BertEncoder

DIALECTS = ("bert-tf", "google", "hugging_face")


def write_weights(weights: Weights, folder: str, dialect: str) -> str:
    """Writes a checkpoint.

    Args:
        weights: What to write.
        folder: Where; an existing folder is replaced.
        dialect: One of `DIALECTS`. With slots, "google" writes what the original training goes on
            from; the others have no place for slots.

    Returns:
        What `read_weights` takes to read it back.

    Raises:
        InputError: The dialect is none of them, or needs a config that is not there.
    """
    if dialect not in DIALECTS:
        raise InputError(f"There is no dialect {dialect!r}. Take one of {', '.join(DIALECTS)}.")
    if weights.config is None:
        raise InputError(
            f"No bert_config.json was found beside {weights.source}. Give it with "
            "--bert_config_file."
        )
    if dialect == "google":
        return google.write(folder, weights, weights.arrays)
    if dialect == "hugging_face":
        huggingface.write(folder, weights)
        return folder
    step = {} if weights.global_step is None else {"step": weights.global_step}
    our_folder.write_weights(
        folder,
        weights.arrays,
        weights.config,
        weights.vocabulary,
        weights.do_lower_case,
        {**weights.extra, **step},
    )
    return folder


def convert(
    source: str,
    target: str,
    dialect: str,
    slots: bool = False,
    config: BertConfig | None = None,
    **known: Any,
) -> str:
    """Reads a checkpoint, writes it in another dialect, reads that back and compares the two.

    Args:
        source: What `read_weights` takes.
        target: The folder to write.
        dialect: One of `DIALECTS`.
        slots: Whether Adam's slots go along ("google" only).
        config: The architecture, where none is beside the source.
        **known: `vocabulary` or `do_lower_case`, where the source does not say.

    Returns:
        A report: what was written, what the model says of it, what was left out.

    Raises:
        InputError: Reading or writing is not possible, or a tensor would get lost or change.
    """
    weights = read_weights(source, slots=slots and dialect == "google")
    given = {key: value for key, value in known.items() if value is not None}
    weights = dataclasses.replace(weights, config=config or weights.config, **given)
    if weights.config is None:
        raise InputError(
            f"No bert_config.json was found beside {source}. Give it with --bert_config_file."
        )
    report = assign(BertEncoder(weights.config), weights)
    written = read_weights(write_weights(weights, target, dialect), slots=bool(weights.slots))
    _check_same(weights, written)
    difference = output_difference(weights, written)
    lines = [
        f"{source} ({weights.dialect}) -> {target} ({dialect})",
        f"{len(weights.arrays)} weights and {len(weights.slots)} slots, read back bit for bit.",
        f"Greatest difference of the outputs on a fixed input: {difference}.",
    ]
    if report.missing:
        lines.append(f"The source has no {', '.join(report.missing)}.")
    beyond = google.beyond_the_original(weights.config) if dialect == "google" else []
    if beyond:
        lines.append(f"google-research/bert itself computes another model: {', '.join(beyond)}.")
    if weights.unknown:
        lines.append(f"Left out, not weights of a BERT: {', '.join(weights.unknown)}.")
    return "\n".join(lines)


def _check_same(weights: Weights, written: Weights) -> None:
    ours = {**weights.arrays, **weights.slots}
    theirs = {**written.arrays, **written.slots}
    lost = sorted(ours.keys() - theirs.keys())
    if lost:
        raise InputError(f"{written.source} has no place for {', '.join(lost)}.")
    changed = [name for name in ours if not np.array_equal(ours[name], theirs[name])]
    if changed:
        raise InputError(f"{written.source} does not hold what was written: {changed[0]} differs.")


def output_difference(one: Weights, two: Weights) -> float:
    """Greatest difference of the encoders' sequence and pooled outputs on a fixed input.

    Each checkpoint is computed with its own config, so that a wrong reading of an activation or
    of a size would show too.
    """
    outputs = [_outputs(weights) for weights in (one, two)]
    return max(float(np.abs(outputs[0][name] - outputs[1][name]).max()) for name in outputs[0])


def _outputs(weights: Weights) -> dict[str, np.ndarray]:
    config = weights.config
    if config is None:
        raise InputError(f"{weights.source} has no config.")
    model = BertEncoder(config, seed=0)
    assign(model, weights)
    length = min(config.max_position_embeddings, 64)
    ids: np.ndarray = (
        np.arange(2 * length, dtype=np.int32).reshape(2, length) * 37 % config.vocab_size
    )
    mask = np.ones_like(ids)
    mask[1, length // 2 :] = 0
    segments: np.ndarray = np.arange(2 * length, dtype=np.int32).reshape(2, length)
    segments %= config.type_vocab_size
    outputs = model({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
    return {name: np.asarray(outputs[name]) for name in ("sequence_output", "pooled_output")}
