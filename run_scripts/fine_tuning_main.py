"""The main function of all fine-tuning programs, and the flags that they share."""

import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from absl import flags

from bert_tf.errors import InputError
from bert_tf.fine_tuning.fine_tuning_config import FineTuningConfig
from bert_tf.program import config_flags, startup
from bert_tf.program.help_text import name_programs
from bert_tf.run_scripts import flags as shared
from bert_tf.storage import files
from bert_tf.storage.file_checks import is_inside
from bert_tf.storage.output_paths import check_output_folder
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DEV_EXAMPLES, DataLocation, Task
from bert_tf.training.config import RunPhases

FLAGS = flags.FLAGS
# --help then lists the flags of this module with the program's.
flags.disclaim_key_flags()

# Commands to run next; {} is the path of a model.
EXPORT = "python run_scripts/export_model.py --checkpoint={} --export_dir=served"
_PREDICT = "python run_scripts/predict.py --model={} --input_file=texts.txt"


def define_flags() -> None:
    """Defines the flags of all tasks."""
    flags.DEFINE_string("output_dir", None, "Folder of this run.")
    config_flags.define(
        DataLocation,
        (
            "data_dir",
            "train_file",
            "max_train_examples",
            "max_eval_examples",
            "allow_skipped",
        ),
    )
    flags.DEFINE_string(
        "predict_file",
        None,
        "File for --do_predict, of any name, with or without labels or answers.",
    )
    flags.DEFINE_bool("do_train", False, "Whether to train on the train split.")
    flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev split.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict the test split.")
    flags.DEFINE_bool(
        "check_only",
        False,
        "Check flags and data, and stop before anything is written.",
    )
    flags.DEFINE_string(
        "export_dir",
        None,
        "Exports the model as a SavedModel that takes raw text, as a new version in "
        "this folder.",
    )
    config_flags.define(
        FineTuningConfig, without=("max_seq_length", "eval_batch_size", "class_weights")
    )
    flags.DEFINE_bool(
        "init_head",
        None,
        "Whether the head comes from --init_checkpoint too. Default: if that is a run "
        "of the same task with the same labels.",
    )
    shared.define_model_flags(
        "The pretrained model: a checkpoint of google-research/bert, the Model Garden, "
        "Hugging Face or bert-tf. Default: random weights."
    )
    shared.define_training_flags()


def define_split_flags() -> None:
    """Defines the flags of tasks whose dev and test splits are different files."""
    config_flags.define(
        DataLocation,
        ("dev_file", "test_file"),
        texts={"test_file": "The same as --predict_file."},
    )


def run_task(
    location: DataLocation,
    make_task: Callable[[DataLocation], Task],
    next_step: str,
) -> None:
    """Trains, evaluates and predicts.

    Args:
        location: The place of the data.
        make_task: Builds the task from the flags and the place of its data.
        next_step: The command to run next if the model is not exported, with {} for the
            path of the trained model; for the last line of the output.

    Raises:
        InputError: A flag, a file or the folder of an earlier run is not valid.
    """
    phases = RunPhases(FLAGS.do_train, FLAGS.do_eval, FLAGS.do_predict)
    if not phases.kinds:
        raise InputError(
            "Nothing to do: give --do_train, --do_eval or --do_predict =true."
        )
    _check_flags()
    startup.import_tensorflow()
    from bert_tf.export.layout import next_version
    from bert_tf.fine_tuning import fine_tune

    if FLAGS.export_dir:
        next_version(FLAGS.export_dir)
    model, features = shared.run_model(), shared.feature_settings()
    task: Any = make_task(location)
    if "head" in FLAGS and phases.train:  # else the head is that of the trained model
        task = dataclasses.replace(task, head=shared.head_config())
    results = fine_tune.run(
        task,
        location,
        model,
        phases,
        fine_tuning_config(),
        shared.training_config(),
        shared.runtime_config(),
        features,
        shared.distillation_config(),
        FLAGS.init_head,
        FLAGS.check_only,
    )
    if FLAGS.check_only:
        print("Flags and data are valid.")
        return
    for name, value in sorted(results.values.items()):
        print(f"{name} = {value}")
    trained = FLAGS.output_dir if phases.train else model.trained_run
    used = trained or FLAGS.init_checkpoint
    if FLAGS.export_dir and results.is_chief:
        _export(used)
        next_step, used = _PREDICT, FLAGS.export_dir
    following = name_programs(next_step.format(shlex.quote(used)), sys.argv[0])
    print(
        " ".join(
            [*([results.summary] if results.summary else []), f"Next: {following}"]
        )
    )


def _check_flags() -> None:
    """Checks the values of flags, as far as possible without TensorFlow.

    Raises:
        InputError: A value is out of range, flags contradict each other, or
            --output_dir or --export_dir cannot be used.
    """
    shared.check_output_dir()
    config_flags.build(FineTuningConfig)
    shared.runtime_config()
    shared.training_config()
    shared.distillation_config()
    if "head" in FLAGS and FLAGS.do_train:
        shared.head_config()
    if (
        "task_type" in FLAGS and FLAGS.do_train
    ):  # else the trained model gives --task_type
        shared.check_effect(
            "task_type", "multi_label", ("threshold", "label_separator")
        )
    if FLAGS.export_dir:
        _check_export_dir(FLAGS.export_dir, FLAGS.output_dir)


def _check_export_dir(export_dir: str, output_dir: str) -> None:
    """Checks, before the training, that the model can be exported to a folder afterwards.

    Raises:
        InputError: The folder cannot be written, or the run writes to it or removes it.
    """
    of_run = [os.path.join(output_dir, name) for name in ("checkpoints", "best")]
    is_output = is_inside(export_dir, output_dir) and is_inside(output_dir, export_dir)
    if is_output or any(is_inside(export_dir, each) for each in of_run):
        raise InputError(
            f"--export_dir={export_dir} would contain files of the run in "
            "--output_dir. Give another folder for the exported versions."
        )
    check_output_folder(export_dir, ".new_version")


def _export(checkpoint: str) -> None:
    """Writes the SavedModel of the trained model, in a process that leaves the GPUs alone."""
    command = [
        sys.executable,
        "-m",
        "bert_tf.run_scripts.export_model",
        f"--checkpoint={checkpoint}",
        f"--export_dir={FLAGS.export_dir}",
    ]
    examples = os.path.join(FLAGS.output_dir, DEV_EXAMPLES)
    if files.exists(examples):  # the checkpoint may be that of another run
        command.append(f"--dev_data={examples}")
    for name in ("max_seq_length", "null_score_diff_threshold"):
        if name in FLAGS and FLAGS[name].present:
            command.append(f"--{name}={FLAGS[name].value}")
    sys.stdout.flush()
    done = subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    if done.returncode:  # the program has printed the reason
        sys.exit(done.returncode)


def data_location() -> DataLocation:
    """Returns the place of the data, from the flags that this module has defined.

    The caller must have called `define_flags` and `define_split_flags`.

    Raises:
        InputError: Two places are given.
    """
    if FLAGS.test_file and FLAGS.predict_file:
        raise InputError(
            "--test_file and --predict_file are the same. Give one of them."
        )
    location = config_flags.build(
        DataLocation,
        test_file=FLAGS.predict_file or FLAGS.test_file,
        table_format=config_flags.build(TableFormat),
    )
    if location.tfds_name and location.data_dir:
        raise InputError(
            "--data_dir and --tfds_name are two places of the data. Give one of them."
        )
    return location


def fine_tuning_config() -> FineTuningConfig:
    """Returns the settings.

    Without training, the trained model gives the default length.
    """
    return config_flags.build(
        FineTuningConfig, **shared.values_or_trained("max_seq_length")
    )
