"""The main function of all fine-tuning programs, and the flags that they share."""

import os
from collections.abc import Callable
from typing import Any

from absl import flags

from bert_tf import command_line, files
from bert_tf.errors import InputError
from bert_tf.run_scripts import flags as shared
from bert_tf.tasks.config import FineTuningConfig
from bert_tf.tasks.task import DataLocation, Task
from bert_tf.training.config import RunPhases
from bert_tf.weights import FACTS_FILE

FLAGS = flags.FLAGS
_CONFIG = FineTuningConfig()


def define_flags() -> None:
    """Defines the flags; the caller must then adopt those of this module and of `flags`."""
    flags.DEFINE_string("output_dir", None, "Folder of this run.")
    _define_data_flags()
    flags.DEFINE_bool("do_train", False, "Whether to train on the train split.")
    flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev split.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict the test split.")
    flags.DEFINE_integer(
        "predict_batch_size", _CONFIG.predict_batch_size, "Examples per batch in predictions."
    )
    flags.DEFINE_float("num_train_epochs", _CONFIG.num_train_epochs, "Passes over the train split.")
    flags.DEFINE_float(
        "warmup_proportion", _CONFIG.warmup_proportion,
        "Share of the steps in which the learning rate rises.",
    )  # fmt: skip
    flags.DEFINE_bool(
        "init_head", None,
        "Whether the head comes from --init_checkpoint too. Default: if that is a run of the same "
        "task with the same labels.",
    )  # fmt: skip
    shared.define_model_flags(
        "The pretrained model: a checkpoint of google-research/bert, the Model Garden, Hugging "
        "Face or bert-tf. Default: random weights."
    )
    shared.define_training_flags()


def _define_data_flags() -> None:
    flags.DEFINE_string("data_dir", None, "Folder with the train, dev and test files of the task.")
    for name, use in (("train", "--do_train"), ("dev", "--do_eval"), ("test", "--do_predict")):
        flags.DEFINE_string(
            f"{name}_file", None, f"File for {use} instead of the {name} file in --data_dir."
        )
    flags.DEFINE_string(
        "predict_file", None, "The same as --test_file; a file of any name, with or without labels."
    )
    flags.DEFINE_string(
        "tfds_name", None, "Data set of tensorflow-datasets instead of files, such as glue/mrpc."
    )
    flags.DEFINE_string("tfds_data_dir", None, "Folder of the data sets of tensorflow-datasets.")
    flags.DEFINE_integer(
        "max_train_examples", 0, "Use only the first examples of the train split; 0 means all.",
        lower_bound=0,
    )  # fmt: skip
    flags.DEFINE_integer(
        "max_eval_examples", 0, "Use only the first examples of the dev and test splits; 0 means "
        "all.", lower_bound=0,
    )  # fmt: skip


def run_task(make_task: Callable[[DataLocation], Task], next_step: Callable[[], str]) -> None:
    """Trains, evaluates and predicts.

    Args:
        make_task: Builds the task from the place of its data.
        next_step: Returns a command to run next, for the last line of the output.

    Raises:
        InputError: A flag, a file or the folder of an earlier run is not valid.
    """
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise InputError("Nothing to do: give --do_train, --do_eval or --do_predict =true.")
    from bert_tf.tasks.fine_tuning import fine_tune
    from bert_tf.tasks.task_data import TaskData
    from bert_tf.training.lifecycle.run_folder import RunFolder
    from bert_tf.training.strategy import make_strategy

    runtime = shared.runtime_config()
    make_strategy(runtime)
    model = shared.pretrained()
    shared.check_length(FLAGS.max_seq_length, model.config)
    location = data_location()
    task = make_task(location)
    phases = RunPhases(FLAGS.do_train, FLAGS.do_eval, FLAGS.do_predict)
    fine_tuning = FineTuningConfig(**command_line.flag_values(FineTuningConfig))
    data = TaskData(task, location, model.tokenizer, fine_tuning, phases, FLAGS.output_dir)
    training = shared.training_config(
        *data.num_steps(FLAGS.train_batch_size), _fingerprint(data, model.tokenizer)
    )
    metadata = shared.checkpoint_metadata(model.config, model.tokenizer, **_facts(task))
    results = fine_tune(
        phases,
        data,
        model.config,
        RunFolder(FLAGS.output_dir, metadata, training, FLAGS.do_train and FLAGS.overwrite),
        training,
        runtime,
        _initializer(task),
    )
    for name, value in sorted(results.items()):
        print(f"{name} = {value}")
    print(_last_line(task, results, next_step()))


def data_location() -> DataLocation:
    """Returns the place of the data from the flags.

    Raises:
        InputError: No place or two places are given.
    """
    if FLAGS.test_file and FLAGS.predict_file:
        raise InputError("--test_file and --predict_file are the same. Give one of them.")
    values = command_line.flag_values(DataLocation)
    values["test_file"] = FLAGS.predict_file or FLAGS.test_file
    location = DataLocation(**values)
    needed = {"train": FLAGS.do_train, "dev": FLAGS.do_eval, "test": FLAGS.do_predict}
    missing = [kind for kind, use in needed.items() if use and not location.explicit_file(kind)]
    if location.tfds_name and location.data_dir:
        raise InputError("--data_dir and --tfds_name are two places of the data. Give one of them.")
    if missing and not location.tfds_name and not location.data_dir:
        raise InputError(
            f"--data_dir is required, because --{missing[0]}_file is not given. Give the folder "
            "with the files of the task."
        )
    return location


def _facts(task: Task) -> dict[str, Any]:
    """Returns the facts that are saved with the weights, or compared with the saved ones."""
    if FLAGS.do_train:
        return {**task.facts, "max_seq_length": FLAGS.max_seq_length}
    # A trained model may be used for another task with the same labels, and with another length.
    return {name: value for name, value in task.facts.items() if name != "task"}


def _fingerprint(data: Any, tokenizer: Any) -> dict[str, Any]:
    """Returns the values that identify the examples and initial weights of a run."""
    return {
        **data.task.facts,
        "examples": data.fingerprint(),
        "init_checkpoint": FLAGS.init_checkpoint,
        "init_head": FLAGS.init_head,
        "max_seq_length": FLAGS.max_seq_length,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        "do_lower_case": tokenizer.do_lower_case,
    }


def _initializer(task: Task) -> Callable[[Any], None] | None:
    """Returns a function that assigns the weights of --init_checkpoint; None without this flag."""
    if not FLAGS.init_checkpoint:
        if FLAGS.init_head:
            raise InputError("--init_head=true needs --init_checkpoint.")
        return None

    # Without training, a head with random weights is of no use.
    init_head = True if FLAGS.init_head is None and not FLAGS.do_train else FLAGS.init_head

    def initialize(objective: Any) -> None:
        shared.pretrained().initialize_task(objective.model, task.facts, init_head)

    return initialize


def _last_line(task: Task, results: dict[str, float], next_step: str) -> str:
    """Returns the main result, and what to run next."""
    metric, _ = task.best_by
    value = results.get(f"eval_{metric}")
    result = "" if value is None else f"{task.name}: {metric} {value:.4f} on the dev split. "
    return f"{result}Next: {next_step}"


def labels_of_trained_model() -> list[str] | None:
    """Returns the labels of the newest checkpoint in --output_dir; None without a checkpoint."""
    from bert_tf.training.lifecycle.run_folder import RunFolder

    checkpoint = RunFolder(FLAGS.output_dir).latest_checkpoint()
    if checkpoint is None:
        return None
    return files.read_json(os.path.join(checkpoint, FACTS_FILE)).get("labels")
