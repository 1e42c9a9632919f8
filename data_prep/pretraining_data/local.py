"""Makes the records on one machine, in stages whose results are files.

read: a segment -> its documents as token ids; pair: a segment -> rows sorted by key; mask: a run
of the shuffled order -> a part of a shard; assemble: parts -> a shard. Each file appears whole or
not at all in a work folder beside the output, so that a run that was killed goes on with what is
missing; what the files hold does not depend on who made them.

Imports `files`, `features`, `progress`, `errors`, `tokenization`; TensorFlow inside functions.
"""

import collections
import contextlib
import dataclasses
import errno
import fcntl
import functools
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import features, files
from bert_tf.errors import InputError
from bert_tf.progress import Progress
from data_prep.pretraining_data import corpus, masking, pairing, shards, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.pretraining_data.workers import Task, Workers

SPLITS = ("train", "eval")
_ENCODE_BATCH = 4096
# A worker pays for its start (some 3 s) from about this much text, all passes counted.
_BYTES_PER_WORKER = 16 << 20


@dataclasses.dataclass(frozen=True)
class Job:
    """What all stages know.

    Attributes:
        config: What decides the bytes.
        folder: Local folder of the intermediate files.
        fingerprint: Of config, vocabulary and input.
        segments: The input, cut.
        inputs: For the manifest: path, bytes and SHA-256 of each input.
        shards: The names of the shards of each split.
    """

    config: RecordsConfig
    folder: str
    fingerprint: str
    segments: tuple[corpus.Segment, ...]
    inputs: tuple[dict[str, Any], ...]
    shards: dict[str, list[str]]

    def path(self, kind: str, split: str, *numbers: int) -> str:
        """Name of an intermediate file."""
        return os.path.join(self.folder, "-".join([kind, split, *(f"{n:06d}" for n in numbers)]))


def create(
    config: RecordsConfig,
    input_file: str,
    output_files: Sequence[str],
    num_workers: int,
    overwrite: bool,
) -> dict[str, Any]:
    """Makes records, or goes on making them.

    Args:
        config: What decides the bytes.
        input_file: Comma list of globs; not used for "tfds".
        output_files: The shards, or one name that is numbered `num_output_shards` times.
        num_workers: Most processes.
        overwrite: Whether records made with other flags may be replaced.

    Returns:
        The report for each split; empty if the records were there already.

    Raises:
        InputError: Input or output that cannot be used; the message says what to change.
    """
    count = min(num_workers, 1 + _input_bytes(input_file) * config.dupe_factor // _BYTES_PER_WORKER)
    with Workers(count) as workers, _as_input_errors(output_files[0]):
        job = workers.call(prepare, config, input_file, tuple(output_files), overwrite)
        if job is None:
            shutil.rmtree(work_folder(output_files[0]), ignore_errors=True)
            return {}
        with _work_folder(job):
            _read(job, workers)
            parts = _pair(job, workers)
            made = _mask(job, workers, parts)
            return dict(workers.call(finish, job, output_files[0], made, parts))


def _input_bytes(patterns: str) -> int:
    """Size of local input, found without TensorFlow, which loads slowly; else taken as large."""
    if not patterns or "://" in patterns:
        return 1 << 40
    paths = [path for pattern in patterns.split(",") for path in glob.glob(pattern.strip())]
    return sum(os.path.getsize(path) for path in paths)


@contextlib.contextmanager
def _as_input_errors(output_file: str) -> Iterator[None]:
    """A full disk or a folder that may not be written is for the user to mend."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = (
                f"The disk of {os.path.dirname(output_file) or '.'} is full. Free some space; the "
                "same command goes on where this run stopped."
            )
        elif error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            message = f"{error.filename} cannot be written: {error.strerror}."
        else:
            raise
        raise InputError(message) from error
    except Exception as error:
        if type(error).__name__ == "ResourceExhaustedError" and "space" in str(error):
            raise InputError(
                f"The disk of {os.path.dirname(output_file) or '.'} is full. Free some space; the "
                "same command goes on where this run stopped."
            ) from error
        raise


# Before anything is written -------------------------------------------------------------------


def prepare(
    config: RecordsConfig, input_file: str, output_files: tuple[str, ...], overwrite: bool
) -> Job | None:
    """Looks at input, vocabulary and output; writes nothing.

    Returns:
        What there is to do, or None if the same records are there and complete.

    Raises:
        InputError: As `create`.
    """
    vocabulary = vocabulary_of(config)
    if config.input_format == "tfds":
        inputs = corpus.dataset_identity(config)
        paths = []
    else:
        paths = files.expand(input_file)
        inputs = [_identity(path) for path in paths]
    fingerprint = config.fingerprint(vocabulary.sha256, inputs)
    names = {
        "train": shards.shard_names(output_files, config),
        "eval": shards.eval_shard_names(output_files, config),
    }
    job = Job(config, work_folder(output_files[0]), fingerprint, (), tuple(inputs), names)
    if _is_complete(job, output_files[0], overwrite):
        return None
    segments = corpus.cut(config, paths)
    if not segments:
        raise InputError(f"There is no text in {input_file or config.tfds_name}.")
    return dataclasses.replace(job, segments=tuple(segments))


def _identity(path: str) -> dict[str, Any]:
    import tensorflow as tf

    digest, size = hashlib.sha256(), 0
    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder; name its files, such as {path.rstrip('/')}/*.txt.")
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
                size += len(block)
    except tf.errors.OpError as error:
        raise InputError(f"{path} cannot be read: {error.message}.") from error
    return {"path": path, "bytes": size, "sha256": digest.hexdigest()}


def _is_complete(job: Job, output_file: str, overwrite: bool) -> bool:
    """Whether the same records are all there; refuses if others are in the way."""
    from tensorflow.io import gfile

    base = shards.stem(output_file)
    found = [p for p in [*job.shards["train"], *job.shards["eval"]] if gfile.exists(p)]
    manifest_path = base + ".manifest.json"
    manifest: dict[str, Any] = {}
    if gfile.exists(manifest_path):
        found.append(manifest_path)
        with contextlib.suppress(ValueError):
            manifest = json.loads(files.read_text(manifest_path))
    same = manifest.get("fingerprint") == job.fingerprint
    if (
        same
        and gfile.exists(base + ".COMPLETED")
        and all(
            _has_size(os.path.join(os.path.dirname(base), shard["name"]), shard["bytes"])
            for shard in manifest["shards"]
        )
        and {os.path.basename(p) for p in found} >= {shard["name"] for shard in manifest["shards"]}
    ):
        return True
    ours = same or _fingerprint_in(job.folder) == job.fingerprint
    if found and not ours and not overwrite:
        raise InputError(
            f"{found[0]} exists and was made with {_difference(job, manifest)}. Give another "
            "output_file, or --overwrite to replace it."
        )
    return False


def _has_size(path: str, size: int) -> bool:
    from tensorflow.io import gfile

    return bool(gfile.exists(path)) and gfile.stat(path).length == size


def _difference(job: Job, manifest: dict[str, Any]) -> str:
    """In words, the first thing in which a manifest is not this job."""
    if not manifest:
        return "flags that are not known"
    was, now = manifest.get("flags", {}), job.config.to_dict()
    for name in now:
        if name != "vocab_file" and name in was and was[name] != now[name]:
            return f"--{name}={was[name]}, not {now[name]}"
    was_inputs = [{k: v for k, v in each.items() if k != "path"} for each in manifest["inputs"]]
    now_inputs = [{k: v for k, v in each.items() if k != "path"} for each in job.inputs]
    return "another input" if was_inputs != now_inputs else "another vocabulary or version"


# The work folder ------------------------------------------------------------------------------


def work_folder(output_file: str) -> str:
    """Local folder for the intermediate files: hidden, beside the output if that is local."""
    folder, name = os.path.split(shards.stem(output_file))
    if "://" in output_file:
        digest = hashlib.sha256(output_file.encode()).hexdigest()[:16]
        return os.path.join(tempfile.gettempdir(), f"bert_tf_{name}_{digest}.work")
    return os.path.join(folder, f".{name}.work")


def _fingerprint_in(folder: str) -> str:
    try:
        with open(os.path.join(folder, "fingerprint"), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


@contextlib.contextmanager
def _work_folder(job: Job) -> Iterator[None]:
    """Opens the work folder for this run alone; removes it when the records are done."""
    os.makedirs(job.folder, exist_ok=True)
    with open(os.path.join(job.folder, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"Another process is writing {shards.stem(job.shards['train'][0])}. Wait for it, "
                "or give another output_file."
            ) from error
        if _fingerprint_in(job.folder) != job.fingerprint:
            for entry in os.scandir(job.folder):
                if entry.name != "lock":
                    os.remove(entry.path)
            path = os.path.join(job.folder, "fingerprint")
            with open(path, "w", encoding="utf-8") as file:
                file.write(job.fingerprint)
        try:
            yield
        except InputError:
            if not any(name.startswith("rows-") for name in os.listdir(job.folder)):
                shutil.rmtree(job.folder)
            raise
        shutil.rmtree(job.folder)


def _missing(paths: dict[str, Task]) -> "collections.deque[Task]":
    return collections.deque(task for path, task in paths.items() if not os.path.exists(path))


# Stage 1: read --------------------------------------------------------------------------------


def _splits(config: RecordsConfig) -> tuple[str, ...]:
    return SPLITS if config.eval_fraction else SPLITS[:1]


def _read(job: Job, workers: Workers) -> None:
    """Reads and tokenizes all segments, and checks that there is enough text."""
    last = _splits(job.config)[-1]
    tasks = _missing(
        {
            job.path("documents", last, number): (read_segment, (job.config, job.folder, number, s))
            for number, s in enumerate(job.segments)
        }
    )
    sizes = [sum(piece.end - piece.start for piece in segment) for segment in job.segments]
    todo = sum(sizes[task[1][2]] for task in tasks)
    unit = "examples" if job.config.input_format == "tfds" else "bytes"
    with Progress("reading", sum(sizes), unit, sum(sizes) - todo) as progress:
        for task, _ in workers.run(tasks):
            progress.update(sizes[task[1][2]])
    for split in _splits(job.config):
        count = sum(
            len(_ids(job.path("documents", split, number))) for number in range(len(job.segments))
        )
        _check_count(job, split, count)


def _ids(path: str) -> np.ndarray:
    with np.load(path) as arrays:
        return arrays["ids"]


def _check_count(job: Job, split: str, count: int) -> None:
    inputs = ", ".join(str(each["path"]) for each in job.inputs)
    least = 2 if job.config.paired else 1
    if count >= least:
        return
    if job.config.eval_fraction and split == "eval":
        raise InputError(
            f"eval_fraction={job.config.eval_fraction} of the documents of {inputs} are {count}, "
            f"but {least} are needed. Raise it, or give held-out text a run of its own."
        )
    if count == 0:
        raise InputError(f"There is no text in {inputs}.")
    raise InputError(
        f"{inputs} is one document, but random next sentences come from another one. Separate the "
        "documents by blank lines, or give --objective=mlm, which pairs no sentences."
    )


def read_segment(config: RecordsConfig, folder: str, number: int, segment: corpus.Segment) -> None:
    """Stage 1 for one segment: text -> `documents-<split>-<number>`."""
    job = _paths(config, folder)
    sentences, document = corpus.read(config, segment)
    documents = corpus.tokenize(
        number,
        sentences,
        document,
        _tokenizer(config).tokenize,
        vocabulary_of(config).size,
    )
    if not config.eval_fraction:
        documents.save(job.path("documents", "train", number))
        return
    held_out = pairing.held_out(config, documents.ids)
    documents.where(~held_out).save(job.path("documents", "train", number))
    documents.where(held_out).save(job.path("documents", "eval", number))


def _paths(config: RecordsConfig, folder: str) -> Job:
    return Job(config, folder, "", (), (), {})


@functools.lru_cache(maxsize=1)
def _tokenizer(config: RecordsConfig) -> Any:
    from bert_tf.tokenization import BertTokenizer

    return BertTokenizer(config.vocab_file, config.do_lower_case)


@functools.lru_cache(maxsize=1)
def vocabulary_of(config: RecordsConfig) -> masking.Vocabulary:
    """What pairing and masking need to know of the vocabulary.

    Raises:
        InputError: The vocabulary cannot be used.
    """
    tokenizer = _tokenizer(config)
    return masking.Vocabulary(
        size=tokenizer.vocab_size,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        continues=np.array([token.startswith("##") for token in tokenizer.vocabulary]),
        sha256=tokenizer.vocabulary_sha256,
    )


# Stage 2: pair --------------------------------------------------------------------------------


def _pair(job: Job, workers: Workers) -> dict[str, list[shards.Part]]:
    """Pairs all segments, and plans the shards."""
    numbers = range(len(job.segments))
    tasks = _missing(
        {
            job.path("rows", split, number) + ".keys": (
                pair_segment,
                (job.config, job.folder, split, number, len(job.segments)),
            )
            for split in _splits(job.config)
            for number in numbers
        }
    )
    total = len(_splits(job.config)) * len(numbers)
    with Progress("pairing", total, "segments", total - len(tasks)) as progress:
        for _ in workers.run(tasks):
            progress.update(1)
    plans = {}
    for split in _splits(job.config):
        bins = sum(
            shards.count_bins(shards.load_keys(job.path("rows", split, number)))
            for number in numbers
        )
        plans[split] = shards.plan(np.asarray(bins), len(job.shards[split]))
    return plans


def pair_segment(config: RecordsConfig, folder: str, split: str, number: int, count: int) -> None:
    """Stage 2 for one segment: documents of its own and of the pool -> `rows-<split>-<number>`."""
    job, vocabulary = _paths(config, folder), vocabulary_of(config)
    own = corpus.Documents.load(job.path("documents", split, number))
    pool = corpus.Documents.joined(
        [
            corpus.Documents.load(job.path("documents", split, each))
            for each in pairing.pool_of(config, number, count)
        ]
    )
    batches = pairing.rows(config, own, pool, vocabulary.cls_id, vocabulary.sep_id, vocabulary.size)
    dtype = pairing.row_dtype(config, vocabulary.size)
    shards.save_rows(job.path("rows", split, number), batches, dtype)


# Stage 3: mask and assemble -------------------------------------------------------------------


def _mask(
    job: Job, workers: Workers, plans: dict[str, list[shards.Part]]
) -> dict[str, dict[str, Any]]:
    """Makes all parts and, as soon as a shard has all of its, the shard."""
    total = sum(part.rows for parts in plans.values() for part in parts)
    sampled = min(stats.SAMPLE_SIZE / max(total, 1), 1.0)
    tasks: collections.deque[Task] = collections.deque()
    waiting: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    done = 0
    for split, parts in plans.items():
        for number, part in enumerate(parts):
            if os.path.exists(job.path("shard", split, part.shard)):
                done += part.rows
                continue
            waiting[split, part.shard].add(number)
            arguments = (job.config, job.folder, split, number, part, len(job.segments), sampled)
            tasks.append((mask_part, arguments))
    with Progress("masking", total, "examples", done) as progress:
        for (function, arguments), rows in workers.run(tasks):
            if function is not mask_part:
                continue
            progress.update(rows)
            split, number, part = arguments[2:5]
            waiting[split, part.shard].remove(number)
            if not waiting[split, part.shard]:
                mine = [n for n, each in enumerate(plans[split]) if each.shard == part.shard]
                name = job.shards[split][part.shard]
                tasks.appendleft(
                    (assemble_shard, (job.config, job.folder, split, part.shard, mine, name))
                )
    return {
        split: {
            name: json.loads(files_text(job.path("shard", split, number)))
            for number, name in enumerate(job.shards[split])
        }
        for split in plans
    }


def files_text(path: str) -> str:
    """A small local file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def mask_part(
    config: RecordsConfig,
    folder: str,
    split: str,
    number: int,
    part: shards.Part,
    segments: int,
    sampled: float,
) -> int:
    """Stage 3 for one part: rows -> `part-<split>-<number>`, its counts beside it."""
    job, vocabulary = _paths(config, folder), vocabulary_of(config)
    path = job.path("part", split, number)
    if os.path.exists(path):
        return part.rows
    paths = [job.path("rows", split, each) for each in range(segments)]
    rows = shards.load_part(paths, part, pairing.row_dtype(config, vocabulary.size))
    counts: list[stats.Stats] = []

    def batches() -> Iterator[list[bytes]]:
        for start in range(0, len(rows), _ENCODE_BATCH):
            batch = rows[start : start + _ENCODE_BATCH]
            columns = masking.features(config, batch, vocabulary)
            counted = stats.measure(columns, vocabulary.mask_id, sampled)
            counted.truncated = int((batch["trimmed"] > 0).sum())
            counted.trimmed_tokens = int(batch["trimmed"].sum())
            counts.append(counted)
            yield features.encode(columns, features.PRETRAINING)

    with shards.appearing(path) as temporary:
        shards.write_records(temporary, batches())
        empty = stats.Stats.empty(config.max_seq_length, config.max_predictions_per_seq)
        sum(counts, empty).save(path + ".stats")
    return len(rows)


def assemble_shard(
    config: RecordsConfig, folder: str, split: str, shard: int, parts: list[int], name: str
) -> None:
    """Stage 4 for one shard: its parts -> the shard, and `shard-<split>-<number>` that says so."""
    job = _paths(config, folder)
    paths = [job.path("part", split, part) for part in parts]
    made = shards.assemble(paths, name, config.compression)
    with (
        shards.appearing(job.path("shard", split, shard)) as temporary,
        open(temporary, "w") as file,
    ):
        json.dump(made, file)
    for path in paths:
        os.remove(path)


# The end --------------------------------------------------------------------------------------


def finish(
    job: Job,
    output_file: str,
    made: dict[str, dict[str, Any]],
    plans: dict[str, list[shards.Part]],
) -> dict[str, Any]:
    """Writes the statistics, the manifest, and last `<stem>.COMPLETED`.

    Returns:
        The report for each split.
    """
    config, base = job.config, shards.stem(output_file)
    reports = {}
    for split, parts in plans.items():
        empty = stats.Stats.empty(config.max_seq_length, config.max_predictions_per_seq)
        loaded = [
            stats.Stats.load(job.path("part", split, number) + ".stats")
            for number in range(len(parts))
        ]
        reports[split] = sum(loaded, empty).report()
    vocabulary = vocabulary_of(config)
    counts = {
        split: np.bincount([part.shard for part in parts], [part.rows for part in parts])
        for split, parts in plans.items()
    }
    listed = [
        {
            "name": os.path.basename(name),
            "split": split,
            "examples": int(counts[split][number]),
            **made[split][name],
        }
        for split in plans
        for number, name in enumerate(job.shards[split])
    ]
    files.write_json(base + ".stats.json", reports)
    files.write_json(
        base + ".manifest.json",
        {
            "format": "bert_tf pretraining records",
            "version": 1,
            "fingerprint": job.fingerprint,
            "flags": config.to_dict(),
            "vocabulary_sha256": vocabulary.sha256,
            "vocab_size": vocabulary.size,
            "do_lower_case": config.do_lower_case,
            "max_seq_length": config.max_seq_length,
            "max_predictions_per_seq": config.max_predictions_per_seq,
            "examples": {split: report["examples"] for split, report in reports.items()},
            "inputs": list(job.inputs),
            "shards": listed,
        },
    )
    files.write_text(base + ".COMPLETED", job.fingerprint + "\n")
    return reports
