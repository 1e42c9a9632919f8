"""Unpacks input files that are not seekable, and cuts the input into segments.

A segment is a group of whole documents.
"""

import dataclasses
import sys

from bert_tf import files
from bert_tf.data_prep.corpus.formats import format_of
from bert_tf.data_prep.corpus.seekable_files import SeekableFile, seekable_files, unpack
from bert_tf.data_prep.pretraining_data import segments
from bert_tf.data_prep.runners.job import RecordsJob
from bert_tf.data_prep.runners.workers import Workers
from bert_tf.errors import InputError


def cut_input(job: RecordsJob, folder: str, workers: Workers) -> RecordsJob:
    """Returns the job with the segments of its input.

    Files that an earlier run unpacked are reused.

    Args:
        job: The job without segments.
        folder: Folder for the unpacked files.
        workers: The processes that unpack the files, one file per process at a time.

    Raises:
        InputError: The input has no text, or a file cannot be read.
    """
    config = job.config
    paths = [] if config.tfds_name else [str(each["path"]) for each in job.inputs]
    formats = {path: format_of(path, config.input_format) for path in paths}
    inputs = seekable_files(formats, folder)
    packed = [file for file in inputs if file.path != file.source]
    sizes = [workers.submit(_unpack, file, config.text_feature) for file in packed]
    if packed:
        size = sum(wait_for_size() for wait_for_size in sizes)
        print(f"Unpacked {len(packed)} input files into {folder}: {size:,} bytes.", file=sys.stderr)
    found = workers.call(segments.cut, config, inputs)
    if not found:
        raise InputError(f"There is no text in {job.input_names}.")
    return dataclasses.replace(job, segments=tuple(found))


def _unpack(file: SeekableFile, feature: str) -> int:
    """Unpacks a file if it is not yet unpacked; returns its unpacked size in bytes."""
    if not files.exists(file.path):
        with files.atomic_replace(file.path) as temporary:
            unpack(file, feature, temporary)
    return int(files.gfile().stat(file.path).length)
