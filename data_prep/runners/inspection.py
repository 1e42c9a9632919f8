"""Prints records, their statistics, broken rules and unexpected figures."""

import numpy as np

from bert_tf.data_prep.pretraining_data import record_rules, stats
from bert_tf.data_prep.pretraining_data.expected_distribution import DistributionCheck
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.data_prep.runners import record_reading, stages
from bert_tf.errors import InputError
from bert_tf.masking.masked_lm import DynamicMasks
from bert_tf.storage.manifest import find_records, list_shards, manifests_next_to

_CHANGED = "the SHA-256 of the file differs from the SHA-256 in its manifest"


def inspect(config: RecordsConfig, input_file: str, num_examples: int) -> bool:
    """Prints the first records and checks all records.

    Args:
        config: The expected settings of the records. Unless the records are unmasked,
            the lengths are taken from the records.
        input_file: Comma-separated list of globs.
        num_examples: Number of records to print.

    Returns:
        Whether all records obey all rules and all figures are as expected.

    Raises:
        InputError: The vocabulary cannot be read, no record can be read, or a record
            has other features or lengths.
    """
    vocabulary = stages.vocabulary(config)
    tokens = stages.tokenizer(config.vocab_file, config.do_lower_case).vocabulary
    broken, check = record_rules.BrokenRules(), None
    masks = DynamicMasks(config, vocabulary)
    broken.add(
        _CHANGED, [path for path in find_records(input_file) if _is_changed(path)]
    )

    for batch in record_reading.read_records(input_file, masks, config.max_seq_length):
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
            # The distribution is that of the records that obey all rules.
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
    """Whether manifests next to a file list it, but only with another SHA-256."""
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
    if broken or not all(each.as_expected for each in comparisons):
        return False
    print("  every record obeys all rules, and every figure is as expected")
    return True
