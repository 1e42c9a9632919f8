"""Prints records and what is to be said of them.

Imports `auditing`, `expectations`, `records`.
"""

import dataclasses
import itertools
from typing import Any

import numpy as np

from data_prep.pretraining_data import auditing, expectations, stats
from data_prep.pretraining_data.settings import RecordsConfig
from data_prep.runners import records


def inspect(config: RecordsConfig, input_file: str, num_examples: int) -> bool:
    """Prints a few records, what all of them hold, and what is wrong with them.

    Args:
        config: The flags they should have been made with; the lengths are those of the records.
        input_file: Comma list of globs.
        num_examples: How many to print.

    Returns:
        Whether all is as expected.

    Raises:
        InputError: The files cannot be read, or the vocabulary.
    """
    vocabulary, tokens = records.load_vocabulary(config.vocab_file, config.do_lower_case)
    findings, tally = auditing.Findings(), None
    for batch in records.read(input_file):
        columns = batch.columns
        for number in itertools.islice(range(len(batch.numbers)), num_examples):
            print(f"{batch.path}, record {batch.numbers[number]}")
            print(auditing.as_text(columns, number, tokens, vocabulary.mask_id), end="\n\n")
        num_examples -= min(num_examples, len(batch.numbers))
        sound = _audit(findings, batch, auditing.violations(columns, vocabulary))
        if tally is None:
            sizes: dict[str, Any] = {
                "max_seq_length": columns["input_ids"].shape[1],
                "max_predictions_per_seq": columns["masked_lm_ids"].shape[1],
            }
            tally = expectations.Tally(dataclasses.replace(config, **sizes), vocabulary)
        tally.add({name: column[sound] for name, column in columns.items()})
    return tally is not None and _report(findings, tally)


def _audit(
    findings: auditing.Findings, batch: records.Batch, broken: dict[str, np.ndarray]
) -> np.ndarray:
    """Notes what is broken; bool [B]: the records that break no rule."""
    findings.add("other features or lengths than the first", batch.path, batch.unreadable)
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
