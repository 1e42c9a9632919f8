"""Flags that several programs share, and the settings that are built from them."""

import glob
import os
from collections.abc import Sequence
from typing import Any

from absl import flags

from bert_tf.errors import InputError
from bert_tf.export.formats import RUNTIMES
from bert_tf.program import config_flags, startup
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.storage.paths import check_output_folder, exists, is_inside
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

FLAGS = flags.FLAGS
# --help then lists the flags of this module with the program's.
flags.disclaim_key_flags()


def define_model_flags(checkpoint_help: str) -> None:
    """Defines the flags for the config, checkpoint, vocabulary and casing of the model."""
    config_flags.define_path(
        "bert_config_file",
        "bert_config.json with the architecture; or tiny, mini, small, medium, base or "
        "large: that released size with the entries of --vocab_file. Default: the one "
        "of --init_checkpoint.",
    )
    config_flags.define_path("init_checkpoint", checkpoint_help)
    config_flags.define_path(
        "vocab_file", "vocab.txt. Default: the one of --init_checkpoint."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Whether the tokenizer lower-cases and strips accents: true for uncased "
        "models, false for cased ones. Default: the casing of --init_checkpoint or of "
        "--vocab_file if it is known, else false if at least 1 % of the entries have "
        "upper-case letters, and else true.",
    )


def define_training_flags() -> None:
    """Defines the flags for training that the programs share."""
    config_flags.define(
        TrainingConfig,
        without=("num_train_steps", "num_warmup_steps", "data", "time_budget_secs"),
    )
    flags.DEFINE_enum(
        "backend",
        None,
        startup.BACKENDS,
        "The library that trains the model. Default: the environment variable "
        "KERAS_BACKEND, or tensorflow.",
    )
    config_flags.define(RuntimeConfig, without=("stop_on_signals",))
    config_flags.define(FineTuningConfig, ("eval_batch_size",))
    flags.DEFINE_bool(
        "overwrite", False, "Remove an earlier run from --output_dir first."
    )
    flags.DEFINE_bool("use_tpu", False, "The same as --distribution_strategy=tpu.")
    flags.DEFINE_string("master", None, "Flag of google-research/bert; has no effect.")
    flags.DEFINE_integer(
        "num_tpu_cores",
        8,
        "Flag of google-research/bert; has no effect, all cores are used.",
    )


def define_exported_model_flags(several: bool = False) -> None:
    """Defines the flags for an exported model, of which --model is required.

    With `several`, --model can be given more than once, and its value is a list.
    """
    config_flags.define_path(
        "model",
        "Folder of an exported model, or of one of its versions, or a .tflite or .onnx "
        f"file.{' Give it twice to compare two models.' * several}",
        required=True,
        define_flag=flags.DEFINE_multi_string if several else flags.DEFINE_string,
    )
    flags.DEFINE_bool(
        "trust",
        False,
        "Load a SavedModel without a check of its graph, which can then read and write "
        "files.",
    )
    flags.DEFINE_enum(
        "runtime",
        "auto",
        RUNTIMES,
        "What runs an .onnx file: onnxruntime (also auto), or openvino, which computes "
        "in bfloat16 on processors with such instructions.",
    )


def check_paths_exist(*paths: str | None) -> None:
    """Raises an `InputError` if a local path does not exist; skips None, of flags not given."""
    for path in paths:
        if path is not None and "://" not in path and not exists(path):
            raise InputError(f"There is no file or folder {path!r}.")


def runtime_config() -> RuntimeConfig:
    """Returns the runtime settings (devices, logging, checkpoints) from the flags."""
    return config_flags.build(
        RuntimeConfig,
        distribution_strategy="tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy,
        profile_steps=_profile_steps(),
        stop_on_signals=True,
    )


def _profile_steps() -> tuple[int, int] | None:
    if not FLAGS.profile_steps:
        return None
    try:
        first, last = map(int, FLAGS.profile_steps)
    except ValueError as error:
        raise InputError(
            "--profile_steps needs two whole numbers, such as 100,110. "
            f"Received: {','.join(FLAGS.profile_steps)}."
        ) from error
    return first, last


def check_output_dir(inputs: Sequence[str]) -> None:
    """Checks --output_dir, and that --overwrite removes nothing that the run needs.

    `inputs` has the names of the flags with paths of data, and "teacher" if the program
    has this flag.
    """
    output = FLAGS.output_dir
    check_output_folder(output, "run.lock")
    # An empty text is usually a variable of the shell that is not set.
    for name in ("init_checkpoint", "bert_config_file", "vocab_file"):
        if FLAGS[name].value == "":
            raise InputError(f"--{name} is empty. Give a path, or leave out the flag.")
    if not (FLAGS.do_train and FLAGS.overwrite):
        return

    # A run that is an input may not be in the folder at all. Other input files may be,
    # but not among the files that are removed.
    replaced = ("best", "checkpoints", "bert_config.json")
    for name in ("init_checkpoint", "bert_config_file", "vocab_file", *inputs):
        parts = ("",) if name in ("init_checkpoint", "teacher") else replaced
        for path in _paths_of(name):
            if any(is_inside(path, os.path.join(output, part)) for part in parts):
                raise InputError(
                    f"--overwrite removes the run in {output}, but --{name}={path} is "
                    "part of it. Give another --output_dir."
                )


def _paths_of(name: str) -> list[str]:
    """Returns the paths that a flag names; [] if the flag is not given."""
    patterns = (FLAGS[name].value or "").split(",")
    return [
        path
        for pattern in patterns
        if pattern
        for path in glob.glob(pattern) or [pattern]
    ]


def check_effect(name: str, value: Any, dependent: tuple[str, ...]) -> None:
    """Checks that `dependent` flags are given only if the flag `name` has the value `value`."""
    present_flags = [flag_name for flag_name in dependent if FLAGS[flag_name].present]
    if present_flags and FLAGS[name].value != value:
        raise InputError(
            f"--{present_flags[0]} has no effect without --{name}={value}. Give both or none."
        )
