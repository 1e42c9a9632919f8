r"""Writes pretraining TFRecords for masked LM and next-sentence prediction.

    python data_prep/create_pretraining_data.py \
      --input_file=corpus/*.txt --output_file=records/train.tfrecord \
      --vocab_file=vocab.txt \
      --num_output_shards=8

A text file has one sentence per line and a blank line between documents. The input may
also be JSON lines (.jsonl) or TFRecord (.tfrecord), each optionally with .gz, or
Parquet (.parquet). In these formats, each line, record or row is one document. A
tensorflow-datasets split (--tfds_name) can be the input too. The written records have
the seven features of google-research/bert with the same lengths and types, so programs
that read google-research/bert records can also read these records.

The same flags and input give the same bytes, for any number of workers. The program
also writes, to the folder of the output file, <stem>.manifest.json (flags, hash of the
vocabulary, checksum of each shard), <stem>.stats.json (statistics of the records) and,
last, <stem>.COMPLETED. Here, <stem> is the name of the output file without ".tfrecord"
(part-1 for part.tfrecord-1). The same command resumes an interrupted run. Examples from
held-out documents (--eval_fraction) are written to <stem>.eval-00000-of-00001.tfrecord
...

During the run, a work folder next to the output holds intermediate files. Their size is
up to 1.5 times the size of the records. When a shard is written, its parts in the work
folder are removed. If the input is not plain text or JSON lines, the folder also holds
the unpacked input. Memory does not depend on the size of the input. A document may have
up to 8 MiB. For each 4 MiB of the input, the random next sentences are drawn from
another random selection of 64 MiB of the input. If the input has at most 64 MiB, the
next sentences are drawn from the entire input, as in google-research/bert.
"""

import os
import sys

from absl import flags

from bert_tf.errors import InputError
from bert_tf.program import command_line, config_flags
from bert_tf.record_creation import records_config, stats
from bert_tf.record_jobs import beam, dask, local
from bert_tf.record_jobs.base import Runner, create_records

config_flags.define_path("input_file", "Comma list of globs: the text files.")
config_flags.define_path(
    "output_file", "TFRecord file to write, or a comma list of them.", required=True
)
config_flags.define_path(
    "vocab_file", "Vocabulary file, one token per line.", required=True
)
config_flags.define(
    records_config.RecordsConfig, without=("segment_bytes", "pool_bytes")
)
flags.DEFINE_integer("num_workers", 0, "Limit of processes; 0: one per core.", 0, 256)
flags.DEFINE_enum(
    "runner",
    "local",
    ["local", "dask", "beam"],
    "Where to run: this machine, a Dask cluster, or Apache Beam; the records are the "
    "same.",
)
flags.DEFINE_string(
    "dask_scheduler",
    "",
    "Address of the scheduler of Dask, such as tcp://host:8786, or its scheduler file. "
    "All workers must see input, vocabulary and output under the same paths.",
)
flags.DEFINE_float(
    "dask_timeout_secs",
    60,
    "Seconds to wait for the scheduler, and without a worker.",
    1,
)
flags.DEFINE_string(
    "beam_options", "", "Options of Beam, such as '--runner=FlinkRunner ...'."
)
flags.DEFINE_bool(
    "overwrite", False, "Replace records that were created with other flags."
)


def main() -> None:
    """Checks the flags, creates the records, and prints their statistics."""
    values = flags.FLAGS
    if bool(values.input_file) == bool(values.tfds_name):
        raise InputError("Give either --input_file or --tfds_name, one of the two.")
    if values.beam_options and values.runner != "beam":
        raise InputError(
            "--beam_options has no effect without --runner=beam. Leave it out."
        )
    if bool(values.dask_scheduler) != (values.runner == "dask"):
        raise InputError(
            "--runner=dask and --dask_scheduler go together; give both or neither."
        )

    config = config_flags.build(records_config.RecordsConfig)
    if warning := config.warning(config.max_seq_length):
        print(warning, file=sys.stderr)

    # One path, to which the shard numbers are added, or the path of each shard.
    paths = [
        name.strip() for name in values.output_file.split(",") if name.strip()
    ] or [""]
    arguments = config, values.input_file or "", paths

    chosen: Runner
    if values.runner == "beam":
        chosen = beam.BeamRunner(values.beam_options)
    elif values.runner == "dask":
        arguments = dask.shared_paths(*arguments)
        chosen = dask.DaskRunner(values.dask_scheduler, values.dask_timeout_secs)
    else:
        workers = values.num_workers or os.cpu_count() or 1
        chosen = local.runner_for(*arguments[:2], workers)
    with chosen:
        reports = create_records(chosen, *arguments, values.overwrite)

    if not reports:
        print(
            f"{values.output_file} is complete and was made with the same flags: "
            "nothing to do."
        )
    for split, report in reports.items():
        print(f"{split}\n{stats.format_report(report)}")


def run() -> None:
    """Runs the program from the command line."""
    command_line.run(main)


if __name__ == "__main__":
    run()
