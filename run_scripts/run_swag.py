r"""Fine-tunes BERT to choose the best of several texts (SWAG), and predicts.

    python run_scripts/run_swag.py --do_train=true --do_eval=true --data_dir=$SWAG_DIR \
        --vocab_file=$BERT_DIR/vocab.txt --bert_config_file=$BERT_DIR/bert_config.json \
        --init_checkpoint=$BERT_DIR/bert_model.ckpt --max_seq_length=80 \
        --train_batch_size=16 \
        --learning_rate=2e-5 --num_train_epochs=3.0 --output_dir=/tmp/swag_output/

--data_dir contains train.csv, val.csv and test.csv of SWAG, or your own .csv, .tsv,
.jsonl or .parquet files with the columns sent1, sent2, ending0, ending1 and so on, and
label. Files .jsonl and .parquet may have lists of choices instead, whose lengths may
differ:

    {"context": "It rains.", "choices": ["Take an umbrella.", "Water the plants."],
    "label": 0}

Writes to --output_dir: checkpoints/, TensorBoard events, metrics.jsonl,
eval_results.txt, and eval_report.txt with the predictions for a few examples. With
--do_predict=true also writes test_results.tsv (one line per example of the test file,
with the probabilities of its choices, separated by tabs), predictions.jsonl and, if the
test file has labels, test_results.txt and test_report.txt. The same command resumes an
interrupted run.
"""

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.program import command_line, config_flags
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DataLocation, Task

FLAGS = flags.FLAGS
config_flags.define(FineTuningConfig, ("max_seq_length",))
config_flags.define(TableFormat, without=("header",))
_PROGRAM = fine_tuning.ProgramFlags()
fine_tuning.define_flags(_PROGRAM)


def main() -> None:
    """Trains, evaluates and predicts, as --do_train, --do_eval and --do_predict say."""
    fine_tuning.run_task(_PROGRAM, make_task, fine_tuning.EXPORT)


def make_task(_: DataLocation) -> Task:
    """Returns the task of multiple choice, which has no settings."""
    from bert_tf.tasks.choice.choice_task import ChoiceTask

    return ChoiceTask()


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
