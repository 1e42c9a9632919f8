"""Checkpoints: folders that appear whole, and what continuing a run asks of them.

<output_dir>/training_config.json      what the run was started with; a run continues unchanged
<output_dir>/bert_config.json
<output_dir>/checkpoints/step-00001000/
    model.safetensors, bert_config.json, vocab.txt, weights.json     see `bert_tf.weights`
    optimizer.safetensors              moments and all else that the optimizer keeps
    data_position.*                    where the input pipeline stands
    training_config.json, runtime_config.json
    state.json                         where the run stands, and the SHA-256 of each file
<output_dir>/best/                     weights of the best held-out evaluation, in the same form
"""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf import files, weights
from bert_tf.errors import InputError
from bert_tf.training.config import TrainingConfig, as_plain, first_difference
from bert_tf.training.optimizer import Optimizer
from bert_tf.training.window import Best

TRAINING_FILE, RUNTIME_FILE = "training_config.json", "runtime_config.json"
OPTIMIZER_FILE, POSITION_FILE = "optimizer.safetensors", "data_position"
STATE_FILE, BEST = "state.json", "best"
# In the order of removal: a run whose removal is cut off still says what it was.
_LEFT_BY_RUNS = (
    *("eval_results.txt", "test_results.tsv", "metrics.jsonl"),
    *("train", "eval", "checkpoints", BEST, TRAINING_FILE),
)
_NAME = re.compile(r"step-(\d{8,})/?$")


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """What travels with the weights; the loop only passes it on.

    Attributes:
        config: The architecture, as a plain dict.
        vocabulary: The entries by id, or None where the run does not know them.
        do_lower_case: Casing of the tokenizer, or None.
        extra: Further facts, such as the labels.
    """

    config: Mapping[str, Any]
    vocabulary: Sequence[str] | None = None
    do_lower_case: bool | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Position:
    """Where a run stands, besides its weights, moments and data.

    Attributes:
        step: Steps done.
        bad_steps: How many of the last ones were bad, as `step.Result` has it.
        best: The best held-out evaluation so far.
    """

    step: int = 0
    bad_steps: int = 0
    best: Best = dataclasses.field(default_factory=Best)


def check_run(output_dir: str, model: ModelDescription, training: TrainingConfig) -> None:
    """Checks that the run in the folder, if there is one, is this one.

    Args:
        output_dir: The folder of the run.
        model: What is trained.
        training: What defines the result.

    Raises:
        InputError: The folder holds a run with another model or training config; the message
            names the first field that differs, with both values.
    """
    path = os.path.join(output_dir, TRAINING_FILE)
    if not tf.io.gfile.exists(path):
        return
    config_path = os.path.join(output_dir, weights.CONFIG_FILE)
    for before, now in (
        (files.read_json(config_path), dict(model.config)),
        (files.read_json(path), as_plain(training)),
    ):
        found = first_difference(before, now)
        if found:
            name, old, new = found
            raise InputError(
                f"{output_dir} holds a run with {name}={old!r}, but this one has "
                f"{name}={new!r}. Give the same value to continue it, another --output_dir, "
                "or --overwrite=true to start anew."
            )


def begin_run(
    output_dir: str, model: ModelDescription, training: TrainingConfig, overwrite: bool
) -> None:
    """Takes the folder for this run: writes its configs, after removing the run that is there.

    Args:
        output_dir: The folder of the run.
        model: What is trained.
        training: What defines the result.
        overwrite: Whether to remove what an earlier run left.
    """
    if overwrite:
        for name in _LEFT_BY_RUNS:
            files.remove(os.path.join(output_dir, name))
    for folder in (output_dir, os.path.join(output_dir, "checkpoints")):
        for place in tf.io.gfile.glob(os.path.join(folder, ".*.????????.tmp*")):
            files.remove(place)  # of a run that was killed while it saved
    files.write_json(os.path.join(output_dir, weights.CONFIG_FILE), dict(model.config))
    files.write_json(os.path.join(output_dir, TRAINING_FILE), as_plain(training))


def folder_of(output_dir: str, step: int) -> str:
    """The folder of a step's checkpoint."""
    return os.path.join(output_dir, "checkpoints", f"step-{step:08d}")


def checkpoints(output_dir: str) -> list[str]:
    """The checkpoint folders of a run, oldest first."""
    parent = os.path.join(output_dir, "checkpoints")
    if not tf.io.gfile.exists(parent):
        return []
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(parent) if _NAME.search(name)]
    return [os.path.join(parent, name) for name in sorted(names, key=step_of)]


def latest(output_dir: str) -> str | None:
    """The newest checkpoint that is whole; a damaged one is named on stderr and passed over."""
    for folder in reversed(checkpoints(output_dir)):
        damaged = _damaged_file(folder)
        if damaged is None:
            return folder
        print(f"warning: {folder} is passed over: {damaged} is damaged.", file=sys.stderr)
    return None


def step_of(folder: str) -> int:
    """The step of a checkpoint, by its name."""
    found = _NAME.search(folder)
    assert found, folder
    return int(found[1])


def handed_on(newest: str) -> str:
    """The folder whose weights a run hands on.

    Args:
        newest: The run's newest whole checkpoint.

    Returns:
        The folder of its best weights where it was to stop early, else `newest`.
    """
    best = os.path.join(os.path.dirname(os.path.dirname(newest)), BEST)
    stops_early = files.read_json(os.path.join(newest, RUNTIME_FILE)).get("early_stopping_evals")
    return best if stops_early and weights.is_weights_folder(best) else newest


def restore(folder: str, optimizer: Optimizer, iterator: Any) -> Position:
    """Puts weights, moments and data position back.

    Returns:
        Where the run stood.

    Raises:
        InputError: The folder is of another model.
    """
    path = os.path.join(folder, OPTIMIZER_FILE)
    slots = weights.from_safetensors(files.read_bytes(path), path)
    optimizer.load(_arrays(folder, optimizer.variables).arrays, slots)
    position = tf.train.Checkpoint(iterator=iterator)
    position.read(os.path.join(folder, POSITION_FILE)).assert_consumed()
    facts = files.read_json(os.path.join(folder, STATE_FILE))
    return Position(facts["step"], facts["bad_steps"], Best(**facts["best"]))


def changed_layout(folder: str, runtime: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """What of the layout differs from that of a checkpoint: (name, value before, value now).

    Args:
        folder: A checkpoint.
        runtime: What `save` was given, of the run that goes on.
    """
    before = files.read_json(os.path.join(folder, RUNTIME_FILE))
    return [
        (name, before.get(name), runtime[name])
        for name in ("replicas", "gradient_accumulation_steps")
        if before.get(name) != runtime[name]
    ]


def restore_weights(folder: str, variables: Mapping[str, Any]) -> int:
    """Puts the weights back.

    Returns:
        The number of steps done.

    Raises:
        InputError: The folder is of another model.
    """
    saved = _arrays(folder, variables)
    for name, variable in variables.items():
        variable.assign(saved.arrays[name])
    return int(saved.extra["step"])


def _arrays(folder: str, variables: Mapping[str, Any]) -> Any:
    """The weights in the folder, checked to be those of the variables."""
    saved = weights.read_weights_folder(folder)
    for name in sorted({*saved.arrays, *variables}):
        if name not in saved.arrays or name not in variables:
            raise InputError(f"{folder} is of another model: only one of the two has {name}.")
        if saved.arrays[name].shape != tuple(variables[name].shape):
            raise InputError(
                f"{folder} is of another model: {name} has the shape {saved.arrays[name].shape} "
                f"there, {tuple(variables[name].shape)} here."
            )
    return saved


def check_model(folder: str, model: ModelDescription) -> None:
    """Checks that a checkpoint is of this model, tokenizer and labels.

    Args:
        folder: A checkpoint.
        model: What it is to be used as.

    Raises:
        InputError: A fact differs; it is named with both values.
    """
    facts = files.read_json(os.path.join(folder, weights.FACTS_FILE))
    now = {"do_lower_case": model.do_lower_case, **model.extra}
    if model.vocabulary is not None:
        now["vocabulary_sha256"] = weights.vocabulary_sha256(model.vocabulary)
    now = {key: value for key, value in now.items() if value is not None}
    config = files.read_json(os.path.join(folder, weights.CONFIG_FILE))
    before = {
        **{key: config.get(key) for key in model.config},
        **{key: facts.get(key) for key in now},
    }
    found = first_difference(before, {**model.config, **now})
    if found:
        name, old, new = found
        raise InputError(
            f"{folder} was trained with {name}={old!r}, but {name}={new!r} is asked for."
        )


def checksums(folder: str) -> dict[str, str]:
    """The SHA-256 of each file in the folder."""
    names = sorted(tf.io.gfile.listdir(folder))
    return {name: files.sha256(files.read_bytes(os.path.join(folder, name))) for name in names}


def _damaged_file(folder: str) -> str | None:
    try:
        expected = files.read_json(os.path.join(folder, STATE_FILE))["files"]
        for name, checksum in expected.items():
            if files.sha256(files.read_bytes(os.path.join(folder, name))) != checksum:
                return name
    except (InputError, KeyError):
        return STATE_FILE
    return None
