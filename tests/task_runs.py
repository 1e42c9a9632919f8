"""Short fine-tunings of tiny models, one of each kind, on the backend of KERAS_BACKEND.

As a program, this module takes a JSON list of pairs: a name of `RUNS`, and the number of
steps after which the run stops, 0 for none. Data and runs are in the current folder, and
teachers in `../teachers`. A run resumes its newest checkpoint.
"""

import json
import os
import subprocess
import sys

import bert_tf
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import models
from bert_tf.runs.fine_tuning_config import FeatureSettings
from bert_tf.tasks.squad.squad_encoding import WindowSettings

BILSTM = HeadConfig("bilstm", 1, 8)
FROZEN = HeadConfig(feature_layers="second_to_last")
FROZEN_BILSTM = HeadConfig("bilstm", 1, 8, "weighted_sum_all")


def texts(task_type="classification", label="label", **options):
    """Returns a task of the table of texts."""
    columns = bert_tf.TextColumns("sentence", label=label)
    return bert_tf.custom_task(columns, task_type, **options)


def in_windows():
    """Returns a task whose long texts are split into windows."""
    return texts(long_texts=bert_tf.LongTexts("windows", doc_stride=2))


def answers():
    """Returns a task of questions with one token."""
    return bert_tf.SquadTask(windows=WindowSettings(doc_stride=2, max_query_length=1))


# The task of each run, the ending of its data, and what is special about it.
RUNS = {
    "classification": (texts, "tsv", {}),
    "windows": (in_windows, "tsv", {"class_weights": "balanced"}),
    "regression": (lambda: texts("regression", "words"), "tsv", {}),
    "multi_label": (lambda: texts("multi_label", "names"), "tsv", {}),
    "choice": (bert_tf.ChoiceTask, "csv", {}),
    "answers": (answers, "json", {}),
    "entities": (bert_tf.NerTask, "conll", {"class_weights": "B-PER=3"}),
    "bilstm": (bert_tf.NerTask, "conll", {"head": BILSTM}),
    "frozen": (texts, "tsv", {"head": FROZEN}),
    "frozen_bilstm": (bert_tf.NerTask, "conll", {"head": FROZEN_BILSTM}),
    "student": (texts, "tsv", {"teacher": "classification"}),
    "student_of_entities": (bert_tf.NerTask, "conll", {"teacher": "entities"}),
}


def start(backend, folder, names, stop_at_step=0):
    """Executes runs in one process, on a backend, with data and runs in `folder`."""
    variables = {"KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = json.dumps([(name, stop_at_step) for name in names])
    subprocess.run(
        [sys.executable, __file__, arguments],
        env={**os.environ, **variables},
        cwd=folder,
        check=True,
    )


class NoDropout(models.Dropout):
    """The dropout of a head, with the rate 0."""

    def __init__(self, rate, *arguments, **options):
        super().__init__(0.0 * rate, *arguments, **options)


def run(name, stop_at_step):
    """Executes a run in this process, or continues it; evaluates it at its end."""
    models.Dropout = NoDropout  # its rate cannot be chosen
    make_task, ending, special = RUNS[name]
    head, teacher = special.get("head"), special.get("teacher")
    is_frozen = head is not None and head.feature_layers

    bert_tf.fine_tune(
        make_task(),
        bert_tf.DataLocation(train_file=f"train.{ending}", dev_file=f"dev.{ending}"),
        name,
        init_checkpoint="model",
        head=head,
        phases=bert_tf.RunPhases(train=True, evaluate=not stop_at_step),
        config=bert_tf.FineTuningConfig(
            max_seq_length=10,
            num_train_epochs=1,
            class_weights=special.get("class_weights"),
        ),
        training=bert_tf.TrainingConfig(
            seed=1, global_batch_size=8, learning_rate=1e-3
        ),
        runtime=bert_tf.RuntimeConfig(log_steps=1, stop_at_step=stop_at_step),
        features=FeatureSettings(f"{name}/cache", "float32") if is_frozen else None,
        distillation=(
            bert_tf.DistillationConfig(f"../teachers/{teacher}") if teacher else None
        ),
    )


if __name__ == "__main__":
    for each in json.loads(sys.argv[1]):
        run(*each)
