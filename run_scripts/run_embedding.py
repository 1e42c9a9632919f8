r"""Trains vectors of texts for similarity and search, and evaluates them.

    python run_scripts/run_embedding.py --do_train=true --do_eval=true \
        --train_file=train.tsv --dev_file=dev.tsv --init_checkpoint=$BERT_DIR \
        --text_a_column=question --text_b_column=answer \
        --max_seq_length=128 --train_batch_size=64 --learning_rate=2e-5 \
        --num_train_epochs=1 --output_dir=/tmp/vectors

Each row has two texts that belong together, and perhaps columns of texts that do not
belong to the first one (--negative_columns). For pairs with scores, such as STS-B:

    python run_scripts/run_embedding.py --do_train=true --do_eval=true \
        --data_dir=$GLUE_DIR/STS-B --text_a_column=sentence1 --text_b_column=sentence2 \
        --score_column=score --max_score=5 --init_checkpoint=$BERT_DIR ...

Writes to --output_dir: checkpoints/, TensorBoard events, metrics.jsonl,
eval_results.txt, eval_report.txt and errors.jsonl. With --do_predict=true also writes
test_results.tsv (the cosine of each pair of the test file) and predictions.jsonl. The
same command resumes an interrupted run.
"""

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.program import command_line, config_flags
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.embedding.embedding_settings import EmbeddingSettings
from bert_tf.tasks.embedding.text_rows import PairColumns
from bert_tf.tasks.tables import TableFormat
from bert_tf.tasks.task import DataLocation, Task

FLAGS = flags.FLAGS
config_flags.define(FineTuningConfig, ("max_seq_length",))
config_flags.define(PairColumns)
config_flags.define(EmbeddingSettings)
config_flags.define(TableFormat)
config_flags.define(DataLocation, ("eval_fraction", "test_fraction"))
_PROGRAM = fine_tuning.ProgramFlags(teacher=True)
fine_tuning.define_flags(_PROGRAM)


def main() -> None:
    """Trains, evaluates and predicts, as --do_train, --do_eval and --do_predict say."""
    fine_tuning.run_task(_PROGRAM, make_task, fine_tuning.EXPORT)


def make_task(_: DataLocation) -> Task:
    """Returns the task of the flags."""
    from bert_tf.tasks.embedding.embedding_task import EmbeddingTask

    return EmbeddingTask(
        config_flags.build(PairColumns), config_flags.build(EmbeddingSettings)
    )


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
