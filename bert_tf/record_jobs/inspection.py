"""Reads pretraining records that any program created, and inspects them.

The inspection prints records, their statistics, broken rules and unexpected figures.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import record_format
from bert_tf.errors import InputError, plain_message
from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.record_creation import record_rules, stats
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.record_creation.statistical_tests import DistributionCheck
from bert_tf.record_jobs import stages
from bert_tf.storage import tfrecords
from bert_tf.storage.manifest import find_records, list_shards, manifests_next_to

_BATCH = 4096
Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Consecutive records of a file.

    Attributes:
        start: Index in the file, from 0, of the first record.
        size: Number of records, B.
        columns: The columns of `record_format.PRETRAINING`, int64 or float32; {} if B
            is 0.
        damage: The reason why the next record cannot be read; "" if there is no damage.
    """

    path: str
    start: int
    size: int
    columns: Columns
    damage: str

    def name(self, row: int) -> str:
        """Returns the file and the index of a record, for reports."""
        return f"{self.path} record {self.start + row}"


def read_records(
    patterns: str, masks: DynamicMasks, max_seq_length: int
) -> Iterator[Batch]:
    """Reads all records in batches.

    The first record defines S, the sequence length, and P, the number of predictions
    per sequence. A damaged file is read up to the damage. A file without records gives
    one batch, of size 0. `masks` masks unmasked records, whose length S is
    `max_seq_length`. A record with other features or lengths raises an `InputError`.
    """
    sizes: dict[str, int] = {}
    for path in find_records(patterns):
        parse: Any = None
        start = 0
        for serialized, damage in _read_serialized(path):
            if serialized and parse is None:
                parse = _parser(
                    serialized[0],
                    path,
                    sizes=sizes,
                    masks=masks,
                    max_seq_length=max_seq_length,
                )
            end = start + len(serialized)
            try:
                columns = parse(serialized) if serialized else {}
            # TensorFlow's message can contain bytes of the record that are not UTF-8.
            except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
                raise InputError(
                    f"A record of {path}, from {start} to {end - 1}, has other "
                    "features or lengths than the first one of the file. Create the "
                    "file again."
                ) from error
            yield Batch(
                path, start, size=len(serialized), columns=columns, damage=damage
            )
            start = end


def _read_serialized(path: str) -> Iterator[tuple[list[bytes], str]]:
    """Yields batches of serialized records, at least one, each with the damage after it.

    The damage after the last batch of a damaged file is the reason why the next record
    cannot be read. The damage after any other batch is "".
    """
    data = tfrecords.open_records(path)
    start = 0
    try:
        for batch in data.batch(_BATCH):
            yield list(batch.numpy()), ""
            start += len(batch)
    except tf.errors.OpError as error:
        # The batch that failed may contain valid records before the damaged record.
        rest = data.skip(start).ignore_errors()
        yield list(rest.as_numpy_iterator()), plain_message(error)
    else:
        if not start:
            yield [], ""


def _parser(
    record: bytes,
    path: str,
    sizes: dict[str, int],
    masks: DynamicMasks,
    max_seq_length: int,
) -> Callable[[Sequence[bytes]], Columns]:
    """Returns a function that parses the records of a file, which begins with `record`.

    If `sizes` is empty, the lengths S (sequence) and P (predictions) of the record are
    added to `sizes`; otherwise, the record must have these lengths.
    """
    if record_format.is_unmasked(record):
        return _masking_parser(path, masks, max_seq_length)

    if not sizes:
        features = record_format.values_in(record) or {}
        for letter, name in {"S": "input_mask", "P": "masked_lm_ids"}.items():
            values = features[name].int64_list.value if name in features else ()
            sizes[letter] = max(len(values), 1)
    names = record_format.names_in(record, record_format.PRETRAINING, sizes, path)
    parse = record_format.parser(
        record_format.PRETRAINING, sizes, names, keep_int64=True
    )
    return lambda records: {
        name: value.numpy() for name, value in parse(records).items()
    }


def _masking_parser(
    path: str, masks: DynamicMasks, max_seq_length: int
) -> Callable[[Sequence[bytes]], Columns]:
    """Returns a function that parses unmasked records, and masks them."""
    table = record_format.unmasked(masks.vocabulary.size)
    parse = record_format.parser(table, {"S": max_seq_length}, keep_int64=True)

    def parse_and_mask(records: Sequence[bytes]) -> Columns:
        columns = parse(records)
        is_too_long = record_format.unmasked_lengths(columns) > max_seq_length
        columns = {name: value.numpy() for name, value in columns.items()}
        if np.any(is_too_long) or np.any(
            columns[table[0].name] >= masks.vocabulary.size
        ):
            raise InputError(
                f"{path} has a record that is longer than "
                f"max_seq_length={max_seq_length}, or has ids outside the vocabulary. "
                "Give the flags that the records were created with."
            )
        return masks.mask(columns)

    return parse_and_mask


_CHANGED = "the SHA-256 of the file differs from the SHA-256 in its manifest"


def inspect(config: RecordsConfig, input_file: str, num_examples: int) -> bool:
    """Prints `num_examples` records and a report; returns whether all is as expected.

    This means that each record obeys all rules, each figure is as expected for
    `config`, and each file has the checksum in its manifest. The lengths are taken from
    the records, unless the records are unmasked.
    """
    vocabulary = stages.vocabulary(config)
    tokens = stages.tokenizer(config.vocab_file, config.do_lower_case).vocabulary
    broken = record_rules.BrokenRules()
    check = None
    masks = DynamicMasks(config, vocabulary)
    broken.add(
        _CHANGED, [path for path in find_records(input_file) if _is_changed(path)]
    )

    for batch in read_records(input_file, masks, config.max_seq_length):
        if batch.damage:
            rule = f"the file cannot be read from this record on ({batch.damage})"
            broken.add(rule, [batch.name(batch.size)])
        elif not batch.size:
            print(f"{batch.path} holds no record")

        # The first records are printed.
        for row in range(min(batch.size, num_examples)):
            print(batch.name(row))
            text = record_rules.format_record(
                batch.columns, row, tokens, vocabulary.mask_id
            )
            print(text, end="\n\n")
            num_examples -= 1
        if batch.size:
            # Only the records that obey all rules count for the distribution.
            breaks = record_rules.broken_rules(batch.columns, vocabulary)
            for rule, rows in breaks.items():
                broken.add(
                    rule, [batch.name(row) for row in np.flatnonzero(rows).tolist()]
                )
            obeys = ~np.any(list(breaks.values()), axis=0)
            check = check or DistributionCheck(config, vocabulary, batch.columns)
            check.add({name: column[obeys] for name, column in batch.columns.items()})
    if check is None:
        reasons = "; ".join(broken.lines()) or "the files hold no record"
        raise InputError(f"No record of {input_file} can be read: {reasons}.")
    return _print_report(list(broken.lines()), check)


def _is_changed(path: str) -> bool:
    """Whether manifests next to a file list the file, but none with its current SHA-256."""
    entries = list_shards(manifests_next_to([path], skip_damaged=True), path)
    return bool(entries) and not any(
        shard.has_recorded_checksum() for _, shard in entries
    )


def _print_report(broken: list[str], check: DistributionCheck) -> bool:
    report = check.stats.report()
    comparisons = list(check.comparisons()) if report["examples"] else []
    print(stats.format_report(report))
    for line in broken:
        print(f"  BROKEN: {line}")
    for name, measured, expected, as_expected in comparisons:
        verdict = "as expected" if as_expected else "NOT as expected"
        print(f"  {verdict}: {name}: {measured}; expected: {expected}")
    if broken or not all(comparison.as_expected for comparison in comparisons):
        return False
    print("  every record obeys all rules, and every figure is as expected")
    return True
