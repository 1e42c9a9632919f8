"""The main function of all fine-tuning programs, and the flags that they share."""

import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence

from absl import flags

from bert_tf.cli import shared_flags, trained_run
from bert_tf.errors import InputError
from bert_tf.head_config import FEATURE_LAYERS, HeadConfig
from bert_tf.program import config_flags, startup
from bert_tf.program.help_text import name_programs
from bert_tf.runs.fine_tuning_config import (
    DistillationConfig,
    FeatureSettings,
    FineTuningConfig,
    RunSettings,
)
from bert_tf.storage import files
from bert_tf.storage.checkpoint_formats import AUTHORS
from bert_tf.storage.paths import check_output_folder, is_inside
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DEV_EXAMPLES, DataLocation, Task
from bert_tf.training.training_config import RunPhases, TrainingConfig

FLAGS = flags.FLAGS
# --help then lists the flags of this module with the program's.
flags.disclaim_key_flags()

# Commands to run next; {} is the path of a model.
EXPORT = "python run_scripts/export_model.py --checkpoint={} --export_dir=served"
_PREDICT = "python run_scripts/predict.py --model={} --input_file=texts.txt"
# The learning rate of fine-tuning is too low for a head with random weights on a frozen
# encoder.
LEARNING_RATE_OF_FEATURES = 1e-3


@dataclasses.dataclass(frozen=True)
class ProgramFlags:
    """The groups of flags in which the programs for fine-tuning differ.

    Attributes:
        splits: Whether the dev and test splits are different files.
        teacher: Whether the task can learn the outputs of a teacher.
        head: Whether the task has a head whose layers can be chosen.
        features: Whether the encoder can be frozen; needs `teacher` and `head`.
        of_export: The flags that are passed on to `export_model`, if they are given.
    """

    splits: bool = True
    teacher: bool = False
    head: bool = False
    features: bool = False
    of_export: Sequence[str] = ("max_seq_length",)

    @property
    def inputs(self) -> list[str]:
        """The names of the flags with paths of the data of a run."""
        splits = ("dev_file", "test_file") if self.splits else ()
        teacher = ("teacher", "unlabelled_file") if self.teacher else ()
        return ["data_dir", "train_file", *splits, "predict_file", *teacher]


def define_flags(program: ProgramFlags) -> None:
    """Defines the flags that all programs for fine-tuning have, and the groups of `program`."""
    # Data and output.
    config_flags.define_path("output_dir", "Folder of this run.", required=True)
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
    config_flags.define_path(
        "predict_file",
        "File for --do_predict, of any name, with or without labels or answers.",
    )

    # Phases.
    flags.DEFINE_bool("do_train", False, "Whether to train on the train split.")
    flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev split.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict the test split.")
    flags.DEFINE_bool(
        "check_only",
        False,
        "Check flags and data, and stop before anything is written.",
    )
    config_flags.define_path(
        "export_dir",
        "Exports the model as a SavedModel that takes raw text, as a new version in "
        "this folder.",
    )

    # Model and training.
    config_flags.define(
        FineTuningConfig, without=("max_seq_length", "eval_batch_size", "class_weights")
    )
    flags.DEFINE_bool(
        "init_head",
        None,
        "Whether the head comes from --init_checkpoint too. Default: if that is a run "
        "of the same task with the same labels.",
    )
    shared_flags.define_model_flags(
        f"The pretrained model: a checkpoint of {AUTHORS}. Default: random weights."
    )
    shared_flags.define_training_flags()

    _define_further_flags(program)


def _define_further_flags(program: ProgramFlags) -> None:
    """Defines the groups of flags that only some programs have, if `program` has them."""
    if program.teacher:
        config_flags.define(DistillationConfig, defaults={"teacher": None})
    if program.splits:
        config_flags.define(
            DataLocation,
            ("dev_file", "test_file"),
            texts={"test_file": "The same as --predict_file."},
        )
    if program.head:
        config_flags.define(HeadConfig, without=("feature_layers",))
    if not program.features:
        return

    # Which weights are trained.
    flags.DEFINE_enum(
        "approach",
        "fine_tuning",
        ["fine_tuning", "features"],
        "fine_tuning: train all weights. features: train the head only, on hidden "
        "states of the encoder of --init_checkpoint that are computed once. The "
        f"default of --learning_rate is then {LEARNING_RATE_OF_FEATURES}.",
    )

    # What the head reads, and how it is stored.
    config_flags.define(
        HeadConfig,
        ("feature_layers",),
        defaults={"feature_layers": "concat_last_four"},
        texts={
            "feature_layers": f"Hidden states for --approach=features, one of "
            f"{', '.join(FEATURE_LAYERS)}: the rows of table 7 of the paper. The "
            "weights of a sum are learned."
        },
    )
    flags.DEFINE_enum(
        "feature_dtype",
        "float16",
        ["float16", "float32"],
        "Dtype of the hidden states on disk, for --approach=features.",
    )


def run_task(
    program: ProgramFlags,
    make_task: Callable[[DataLocation], Task],
    next_step: str,
    phases: RunPhases | None = None,
) -> None:
    """Trains, evaluates and predicts, and prints the results.

    Args:
        next_step: The command in the last line of the output, which the user can run
            next, with {} for the path of the trained model. Not used if the model is
            exported.
        phases: The phases to run; None for the phases that the flags name.
    """
    location = _data_location(program)
    phases = phases or RunPhases(FLAGS.do_train, FLAGS.do_eval, FLAGS.do_predict)
    if not phases.kinds:
        raise InputError(
            "Nothing to do: give --do_train, --do_eval or --do_predict =true."
        )
    settings = run_settings(program, phases)
    if FLAGS.export_dir:
        _check_export_dir(FLAGS.export_dir, FLAGS.output_dir)

    startup.import_backend(FLAGS.backend)
    from bert_tf.export.layout import next_version
    from bert_tf.runs import fine_tune

    # Without training, the trained model gives the default of --max_seq_length.
    if FLAGS.export_dir:
        next_version(FLAGS.export_dir)
    model = trained_run.run_model()
    layers = settings.distillation.layers if settings.distillation else ()
    if settings.features and not (model.init_checkpoint or layers or model.trained_run):
        raise InputError(
            "--approach=features needs --init_checkpoint: hidden states of a model "
            "with random weights are of no use."
        )
    task = make_task(location)
    config = dataclasses.replace(
        settings.config, **trained_run.values_or_trained("max_seq_length")
    )
    settings = dataclasses.replace(settings, config=config)
    results = fine_tune.run(
        task, location, model=model, settings=settings, check_only=FLAGS.check_only
    )
    if FLAGS.check_only:
        print("Flags and data are valid.")
        return

    for name, value in sorted(results.items()):
        print(f"{name} = {value}")
    used = FLAGS.output_dir if phases.train else model.trained_run
    used = used or FLAGS.init_checkpoint
    if FLAGS.export_dir and results.is_chief:
        _export(used, program.of_export)
        next_step = _PREDICT
        used = FLAGS.export_dir
    following = name_programs(next_step.format(shlex.quote(used)), sys.argv[0])
    print(f"{results.summary} Next: {following}".lstrip())


def _data_location(program: ProgramFlags) -> DataLocation:
    """Returns the location of the data; raises an `InputError` if the flags give two."""
    test_file = FLAGS.predict_file
    if program.splits:
        if FLAGS.test_file and test_file:
            raise InputError(
                "--test_file and --predict_file are the same. Give one of them."
            )
        test_file = test_file or FLAGS.test_file

    location: DataLocation = config_flags.build(
        DataLocation,
        test_file=test_file,
        table_format=config_flags.build(TableFormat),
    )
    if location.tfds_name and location.data_dir:
        raise InputError(
            "--data_dir and --tfds_name are two places of the data. Give one of them."
        )
    return location


def run_settings(program: ProgramFlags, phases: RunPhases) -> RunSettings:
    """Returns the settings of a run from the flags, without an import of TensorFlow."""
    shared_flags.check_output_dir(program.inputs)
    config = config_flags.build(FineTuningConfig)
    runtime = shared_flags.runtime_config()
    distillation = _distillation_config(program) if program.teacher else None

    # Without training, the head is that of the trained model.
    head = features = None
    values = {}
    if program.head and phases.train:
        head = _head_config(program)
        if head.feature_layers:
            folder = FLAGS.feature_cache_dir or os.path.join(
                FLAGS.output_dir, "features"
            )
            features = FeatureSettings(folder, FLAGS.feature_dtype)
            if not FLAGS["learning_rate"].present:
                values["learning_rate"] = LEARNING_RATE_OF_FEATURES

    return RunSettings(
        phases,
        config,
        training=config_flags.build(TrainingConfig, **values),
        runtime=runtime,
        features=features,
        distillation=distillation,
        init_head=FLAGS.init_head,
        head=head,
    )


def _distillation_config(program: ProgramFlags) -> DistillationConfig | None:
    """Returns the settings of the teacher; None without a teacher or without training."""
    names = [field.name for field in dataclasses.fields(DistillationConfig)]
    if program.features:  # the cache has an effect without a teacher too
        names.remove("feature_cache_dir")
    present_flags = [name for name in names if FLAGS[name].present]
    if present_flags and not FLAGS.teacher:
        raise InputError(
            f"--{present_flags[0]} needs the folder of a run as --teacher."
        )
    settings = config_flags.build(DistillationConfig) if present_flags else None
    return settings if FLAGS.do_train else None


def _head_config(program: ProgramFlags) -> HeadConfig:
    """Returns the layers of the head that a run trains, after a check of the flags."""
    shared_flags.check_effect("head", "bilstm", ("lstm_layers", "lstm_size"))
    layers = None
    if program.features:
        of_cache = ("feature_layers", "feature_dtype", "feature_cache_dir")
        dependent = of_cache[:2] if FLAGS.teacher else of_cache
        shared_flags.check_effect("approach", "features", dependent)
        shared_flags.check_effect(
            "approach", "fine_tuning", ("layer_decay", "recompute")
        )
        layers = FLAGS.feature_layers if FLAGS.approach == "features" else None
    return HeadConfig(FLAGS.head, FLAGS.lstm_layers, FLAGS.lstm_size, layers)


def _check_export_dir(export_dir: str, output_dir: str) -> None:
    """Checks that the folder is writable, and that the run does not write or remove it."""
    is_output = is_inside(export_dir, output_dir) and is_inside(output_dir, export_dir)
    if is_output or any(
        is_inside(export_dir, os.path.join(output_dir, name))
        for name in ("checkpoints", "best")
    ):
        raise InputError(
            f"--export_dir={export_dir} would contain files of the run in "
            "--output_dir. Give another folder for the exported versions."
        )
    check_output_folder(export_dir, ".new_version")


def _export(checkpoint: str, names: Sequence[str]) -> None:
    """Writes the SavedModel of the trained model, in a process that uses no GPU.

    The process also gets the flags `names`, if they are given.
    """
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
    for name in names:
        if FLAGS[name].present:
            command.append(f"--{name}={FLAGS[name].value}")
    sys.stdout.flush()
    done = subprocess.run(command, env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"})
    if done.returncode:  # the program has printed the reason
        sys.exit(done.returncode)
