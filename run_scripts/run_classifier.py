r"""Fine-tunes BERT to classify sentences or pairs, evaluates it, and predicts labels.

    python run_scripts/run_classifier.py --task_name=MRPC \
        --do_train=true --do_eval=true \
        --data_dir=$GLUE_DIR/MRPC --vocab_file=$BERT_DIR/vocab.txt \
        --bert_config_file=$BERT_DIR/bert_config.json \
        --init_checkpoint=$BERT_DIR/bert_model.ckpt \
        --max_seq_length=128 --train_batch_size=32 --learning_rate=2e-5 \
        --num_train_epochs=3.0 \
        --output_dir=/tmp/mrpc_output/

Fine-tuning on your own train, dev and test files with named columns (.tsv, .csv, .jsonl
or .parquet), or on a data set of tensorflow-datasets:

    python run_scripts/run_classifier.py --task_name=custom --data_dir=/data/mine \
        --text_a_column=sentence --label_column=label ...
    python run_scripts/run_classifier.py --task_name=custom --tfds_name=imdb_reviews \
        --text_a_column=text ...

Writes to --output_dir: checkpoints/, TensorBoard events, metrics.jsonl,
eval_results.txt, and eval_report.txt with the metrics of each class. With
--do_predict=true also writes test_results.tsv (one line per example of the test split,
with the probabilities of the labels, separated by tabs), predictions.jsonl, for GLUE
tasks the file for the GLUE server and, if the test split has labels, test_results.txt
and test_report.txt. The same command resumes an interrupted run.
"""

import dataclasses
from typing import Any

from absl import flags

from bert_tf.cli import fine_tuning, shared_flags, trained_run
from bert_tf.errors import InputError
from bert_tf.program import command_line, config_flags
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.classification.classification_task import TABLES
from bert_tf.tasks.classification.long_texts import WINDOWS, LongTexts
from bert_tf.tasks.classification.sources import custom, tfds_reader
from bert_tf.tasks.classification.sources.glue_tasks import GLUE_TASKS, glue_task
from bert_tf.tasks.classification.sources.xnli import xnli
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import CUSTOM, DataLocation, Task

FLAGS = flags.FLAGS
_OTHER_TASKS = ("xnli", CUSTOM)
_OWN_DATA = ("eval_fraction", "test_fraction", "input_format", "encoding", "header")
flags.DEFINE_string(
    "task_name",
    None,
    f"One of {', '.join((*GLUE_TASKS, *_OTHER_TASKS))}.",
    required=True,
)
config_flags.define(
    FineTuningConfig,
    ("max_seq_length", "class_weights"),
    texts={
        "max_seq_length": "Number of tokens of a sequence; see --long_texts for longer "
        "texts."
    },
)
config_flags.define(LongTexts)
flags.DEFINE_string(
    "xnli_language", "zh", "Task xnli: language of the texts, such as en."
)
flags.DEFINE_enum(
    "task_type",
    "classification",
    list(TABLES),
    "Task custom: classification gives one label to each text, multi_label any number "
    "of labels, regression a number.",
)
config_flags.define(custom.TextColumns)
flags.DEFINE_list(
    "labels",
    None,
    "Task custom: the labels, in order. Default: those of the train split, in the "
    "order of the run in --output_dir, of --teacher or of --init_checkpoint if it has "
    "the same labels, else sorted.",
)
flags.DEFINE_float(
    "threshold",
    0.5,
    "Task custom, multi_label: a label with this probability is predicted.",
)
config_flags.define(TableFormat)
config_flags.define(
    DataLocation, ("eval_fraction", "test_fraction", "tfds_name", "tfds_data_dir")
)
_PROGRAM = fine_tuning.ProgramFlags(teacher=True, head=True, features=True)
fine_tuning.define_flags(_PROGRAM)


def main() -> None:
    """Trains, evaluates and predicts, as --do_train, --do_eval and --do_predict say."""
    _task_name()
    if FLAGS.do_train:  # else the trained model gives --task_type
        shared_flags.check_effect(
            "task_type", "multi_label", ("threshold", "label_separator")
        )
    fine_tuning.run_task(_PROGRAM, make_task, fine_tuning.EXPORT)


def make_task(location: DataLocation) -> Task:
    """Returns the task of --task_name; without training, the trained model gives --long_texts."""
    long_texts = LongTexts(
        **trained_run.values_or_trained("long_texts", "doc_stride", "max_windows")
    )
    if not long_texts.in_windows:
        shared_flags.check_effect("long_texts", WINDOWS, ("doc_stride", "max_windows"))
    task: Any = _make_task(location)
    return dataclasses.replace(task, long_texts=long_texts)


def _make_task(location: DataLocation) -> Task:
    name = _task_name()
    if name != "xnli" and FLAGS["xnli_language"].present:
        raise InputError("--xnli_language has no effect without --task_name=xnli.")
    if name != CUSTOM and any(FLAGS[flag].present for flag in _OWN_DATA):
        raise InputError(f"--{', --'.join(_OWN_DATA)} are for --task_name=custom.")
    if name == "xnli":
        return xnli(FLAGS.xnli_language)
    return _make_custom_task(location) if name == CUSTOM else glue_task(name)


def _task_name() -> str:
    """Returns the name of the task in lower case, after a check that it is known."""
    name = FLAGS.task_name.lower()
    try:
        return name if name in _OTHER_TASKS else glue_task(name).name
    except InputError as error:
        raise InputError(
            f"--task_name: {error} For your own data, give custom."
        ) from error


def _make_custom_task(location: DataLocation) -> Task:
    """Returns the task for the user's data; the trained model gives the defaults of flags."""
    settings = trained_run.values_or_trained("task_type", "threshold")
    text_a, text_b = FLAGS.text_a_column, FLAGS.text_b_column
    if location.tfds_name and not FLAGS["text_a_column"].present:
        text_a, text_b = tfds_reader.find_text_features(location)
    columns = custom.TextColumns(
        text_a, text_b, FLAGS.label_column, FLAGS.label_separator
    )
    return custom.custom_task(columns, labels=FLAGS.labels, **settings)


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
