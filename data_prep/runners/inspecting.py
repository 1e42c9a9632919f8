"""Prints records and what is to be said of them.

Imports `auditing`, `checksums`, `expectations`, `records`; `errors`.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from data_prep.pretraining_data import auditing, expectations, stats
from data_prep.pretraining_data.pairing import Vocabulary
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import checksums, records

_CHANGED = "the bytes are not those of the manifest beside it (SHA-256)"


def inspect(config: RecordsConfig, input_file: str, num_examples: int) -> bool:
    """Prints a few records, what all of them hold, and what is wrong with them.

    Args:
        config: The flags they should have been made with; the lengths are those of the records.
        input_file: Comma list of globs.
        num_examples: How many to print.

    Returns:
        Whether all is as expected.

    Raises:
        InputError: No record can be read, or not the vocabulary.
    """
    vocabulary, tokens = records.load_vocabulary(config.vocab_file, config.do_lower_case)
    manifests = checksums.Manifests()
    findings, tally = auditing.Findings(), None
    for batch in records.read(input_file):
        if batch.is_first:
            findings.add_file(_CHANGED, batch.path, manifests.differ(batch.path))
        if batch.is_empty:
            print(f"{batch.path} holds no record")
        if batch.columns:
            shown = min(num_examples, len(batch.numbers))
            _show(batch, shown, tokens, vocabulary.mask_id)
            num_examples -= shown
            tally = tally or _tally(config, batch.columns, vocabulary)
        sound = _audit(findings, batch, vocabulary)
        if tally is not None and batch.columns:
            tally.add({name: column[sound] for name, column in batch.columns.items()})
    if tally is None:
        why = next(findings.lines(), "there is none")
        raise InputError(f"No record of {input_file} can be read: {why}.")
    return _report(findings, tally)


def _show(batch: records.Batch, count: int, tokens: list[str], mask_id: int) -> None:
    for number in itertools.islice(range(len(batch.numbers)), count):
        print(f"{batch.path}, record {batch.numbers[number]}")
        print(auditing.as_text(batch.columns, number, tokens, mask_id), end="\n\n")


def _tally(
    config: RecordsConfig, columns: records.Columns, vocabulary: Vocabulary
) -> expectations.Tally:
    """Counts for records of these lengths."""
    sizes: dict[str, Any] = {
        "max_seq_length": columns["input_ids"].shape[1],
        "max_predictions_per_seq": columns["masked_lm_ids"].shape[1],
    }
    return expectations.Tally(dataclasses.replace(config, **sizes), vocabulary)


def _audit(findings: auditing.Findings, batch: records.Batch, vocabulary: Vocabulary) -> np.ndarray:
    """Notes what is broken; bool [B]: the records that break no rule."""
    for fault, numbers in batch.faults.items():
        findings.add(fault, batch.path, numbers)
    if not batch.columns:
        return np.zeros(0, bool)
    broken = auditing.violations(batch.columns, vocabulary)
    for rule, where in broken.items():
        findings.add(rule, batch.path, batch.numbers[where])
    return ~np.any(list(broken.values()), axis=0)


def _report(findings: auditing.Findings, tally: expectations.Tally) -> bool:
    report = tally.report()
    print(stats.text(report))
    for line in findings.lines():
        print(f"  BROKEN: {line}")
    unexpected = 0
    for figure in tally.figures() if report["examples"] else ():
        unexpected += not figure.as_expected
        verdict = "as expected" if figure.as_expected else "NOT as expected"
        print(f"  {verdict}: {figure.name}: {figure.measured}; expected: {figure.expected}")
    if findings or unexpected:
        return False
    print(f"  every record keeps the {findings.rules} rules, and every figure is as expected")
    return True
