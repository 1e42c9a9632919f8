r"""Fine-tunes BERT to classify sentences or pairs, evaluates it, and predicts.

    python run_scripts/run_classifier.py --task_name=MRPC --do_train=true --do_eval=true \
        --data_dir=$GLUE_DIR/MRPC --vocab_file=$BERT_DIR/vocab.txt \
        --bert_config_file=$BERT_DIR/bert_config.json --init_checkpoint=$BERT_DIR/bert_model.ckpt \
        --max_seq_length=128 --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3.0 \
        --output_dir=/tmp/mrpc_output/

Data of one's own, as train, dev and test files with named columns (.tsv, .csv or .jsonl):

    python run_scripts/run_classifier.py --task_name=custom --data_dir=/data/mine \
        --text_a_column=sentence --label_column=label ...

Writes to --output_dir: checkpoints/, TensorBoard events and metrics.jsonl, eval_results.txt, and
with --do_predict=true test_results.tsv (an example of the test split a line, the probabilities of
the labels between tabs). Started again with the same flags, it goes on from its last checkpoint.
"""

import json
import os

from absl import flags

from bert_tf import command_line, files
from bert_tf.errors import InputError
from bert_tf.tasks import TASKS
from bert_tf.tasks.glue import tasks as glue
from bert_tf.tasks.run import Finetuning, Steps
from bert_tf.tasks.task import Task
from bert_tf.training import state
from bert_tf.training.strategy import make_strategy
from bert_tf.weights import FACTS_FILE
from run_scripts import flags as shared

FLAGS = flags.FLAGS
flags.DEFINE_string("task_name", None, f"One of {', '.join(TASKS)}, or custom.")
flags.DEFINE_string("data_dir", None, "Folder with the train, dev and test files of the task.")
flags.DEFINE_string("output_dir", None, "Folder of this run.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens that a text, or a pair, is cut to.")
flags.DEFINE_bool("do_train", False, "Whether to train on the train split.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate on the dev split.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the test split.")
flags.DEFINE_integer("predict_batch_size", 8, "Examples in a batch when predicting.")
flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the train split.")
flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps in which the learning rate rises.")
flags.DEFINE_string(
    "text_a_column", "sentence", "task custom: column of the sentence, or of the first of a pair."
)
flags.DEFINE_string("text_b_column", None, "task custom: column of the second of a pair.")
flags.DEFINE_string("label_column", "label", "task custom: column of the label.")
flags.DEFINE_list(
    "labels", None,
    "task custom: the labels, in order. Without it, those of the train file, sorted.",
)  # fmt: skip
shared.define_model_flags(
    "The pretrained model: a checkpoint of google-research/bert, a Hugging Face folder, or a "
    "checkpoint folder of ours. Without it the weights are drawn at random."
)
shared.define_training_flags()
flags.adopt_module_key_flags(shared)
flags.mark_flags_as_required(["task_name", "data_dir", "output_dir"])


def main() -> None:
    """Trains, evaluates and predicts as the flags say."""
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise InputError("Nothing to do: give --do_train, --do_eval or --do_predict =true.")
    runtime = shared.runtime_config()
    strategy = make_strategy(runtime)
    config = shared.bert_config()
    shared.check_length(FLAGS.max_seq_length, config)
    tokenizer = shared.tokenizer(config)
    task = make_task()
    steps = Steps(
        train=FLAGS.do_train,
        evaluate=FLAGS.do_eval,
        predict=FLAGS.do_predict,
        max_seq_length=FLAGS.max_seq_length,
        num_train_epochs=FLAGS.num_train_epochs,
        warmup_proportion=FLAGS.warmup_proportion,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.predict_batch_size,
    )
    finetuning = Finetuning(task, FLAGS.data_dir, tokenizer, config, FLAGS.output_dir, steps)
    # A finished run may be evaluated at another length.
    facts = {**task.facts, **({"max_seq_length": FLAGS.max_seq_length} if FLAGS.do_train else {})}
    settings = {
        **task.facts,
        "examples": finetuning.fingerprint(),
        "init_checkpoint": FLAGS.init_checkpoint,
        "max_seq_length": FLAGS.max_seq_length,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
        "do_lower_case": tokenizer.do_lower_case,
    }
    results = finetuning.run(
        shared.model_description(config, tokenizer, **facts),
        shared.training_config(*finetuning.schedule(FLAGS.train_batch_size), settings),
        runtime,
        shared.initializer(),
        FLAGS.overwrite,
        strategy,
    )
    for name, value in sorted(results.items()):
        print(f"{name} = {value}")


def make_task() -> Task:
    """The task of --task_name.

    Raises:
        InputError: There is no such task.
    """
    name = FLAGS.task_name.lower()
    if name in TASKS:
        return TASKS[name]
    if name != "custom":
        raise InputError(
            f"--task_name={FLAGS.task_name} is not known. Give one of {', '.join(TASKS)}, custom."
        )
    labels = FLAGS.labels or _trained_labels()
    if labels is None:
        labels = glue.labels_of(FLAGS.data_dir, FLAGS.text_a_column, FLAGS.label_column)
    return glue.custom(FLAGS.text_a_column, FLAGS.text_b_column, FLAGS.label_column, labels)


def _trained_labels() -> list[str] | None:
    """The labels of the run in --output_dir, where it is only evaluated or predicted with."""
    newest = None if FLAGS.do_train else state.latest(FLAGS.output_dir)
    if newest is None:
        return None
    return json.loads(files.read_text(os.path.join(newest, FACTS_FILE))).get("labels")


def run() -> None:
    """The console script."""
    command_line.run(main)


if __name__ == "__main__":
    run()
