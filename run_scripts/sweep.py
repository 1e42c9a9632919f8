r"""Fine-tunes with each combination of values of flags, and compares the results.

    python run_scripts/sweep.py --grid=learning_rate=5e-5,4e-5,3e-5,2e-5 \
        --grid=train_batch_size=16,32 --seeds=5 --output_dir=/tmp/mrpc_sweep \
        -- run_classifier.py --task_name=MRPC --data_dir=$GLUE_DIR/MRPC \
        --init_checkpoint=$BERT_DIR/bert_model.ckpt --num_train_epochs=3.0

After -- comes a fine-tuning program (run_classifier, run_squad, run_swag or run_ner)
with the flags that all runs have. Each run has a process and a folder of its own. The
same command resumes a sweep that was stopped or killed, and tries failed runs again.
With more values or more --seeds, the command adds runs to the sweep.

Writes to --output_dir: runs/ with the folder of each run, logs/, and at the end
sweep.csv with mean, standard deviation and best result of each combination on the dev
split, and tensorboard/ with the same results for the HPARAMS page. Only the best run
keeps its weights. The last line names the best run and the command that exports it. The
exit code is 1 if a run failed.
"""

import shlex
import sys
from collections.abc import Mapping

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.program import command_line, config_flags, startup
from bert_tf.program.help_text import name_programs
from bert_tf.storage import files
from bert_tf.sweeps import results
from bert_tf.sweeps.execution import execute
from bert_tf.sweeps.plan import Plan, PlannedRun, make_plan
from bert_tf.sweeps.store import CSV, TENSORBOARD, SweepStore

FLAGS = flags.FLAGS
flags.DEFINE_multi_string(
    "grid",
    None,
    "A flag of the program and its values, such as learning_rate=5e-5,4e-5. Give "
    "--grid once for each flag.",
    required=True,
)
config_flags.define_path("output_dir", "Local folder of the sweep.", required=True)
flags.DEFINE_integer(
    "seeds",
    1,
    "Number of runs for each combination of values; their seeds are 1, 2, 3, ...",
    lower_bound=1,
    upper_bound=10_000,
)
flags.DEFINE_integer("parallel", 1, "Number of runs at a time.", lower_bound=1)
flags.DEFINE_bool(
    "keep_all",
    False,
    "Keep the weights and records of all runs, not only those of the best one.",
)
flags.DEFINE_bool(
    "dry_run", False, "Print the commands of the runs, and run none of them."
)


def main(command: list[str]) -> None:
    """Runs the sweep, and prints the table and the best run.

    Args:
        command: The program and its flags.
    """
    plan = make_plan(FLAGS.grid, FLAGS.seeds, FLAGS.output_dir, command)
    if FLAGS.dry_run:
        print("\n".join(shlex.join(plan.command(run)) for run in plan.runs()))
        return
    store = SweepStore(plan)
    _report(plan, store, execute(plan, store, FLAGS.parallel, FLAGS.keep_all))


def _report(plan: Plan, store: SweepStore, failed: Mapping[PlannedRun, str]) -> None:
    """Writes and prints the results; exits with code 1 if a run failed."""
    startup.import_tensorflow()
    finished = store.results()
    table = results.make_cells(plan.cells(), finished, failed)
    files.write_text(store.path(CSV), results.as_csv(table))
    results.write_hparams_page(store.path(TENSORBOARD), plan.grid, table)
    print(results.as_table(table))
    for run, error in failed.items():
        print(f"failed: {run.name}: {error} ({store.log(run)})")
    if finished:
        best = results.best_run(finished)
        text = f"{finished[best].metric} {finished[best].value:.4f} on the dev split"
        export = fine_tuning.EXPORT.format(shlex.quote(plan.folder(best)))
        print(
            f"Best run: {best.name}: {text}. Next: {name_programs(export, sys.argv[0])}"
        )
    if failed:
        sys.exit(1)


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main, takes_command=True)


if __name__ == "__main__":
    run()
