"""The commands of docs/fine_tuning.md run as they are, up to an exported model."""

import csv
import re

import numpy as np
import pytest
from guide_program import code_blocks, run_in, write_checkpoints
from run_programs import results_of

GOOD, BAD = ["good", "with", "all"], ["not", "without", "long"]


def write_reviews(folder):
    """Writes reviews with commas and quotes, whose labels follow from their words."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for split, count in (("train", 240), ("dev", 40), ("test", 10)):
        with open(folder / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["sentence"] if split == "test" else ["sentence", "label"])
            for number in range(count):
                words = rng.choice(BAD if number % 2 else GOOD, 4)
                text = f'A {words[0]} text, "{words[1]} {words[2]}" {words[3]}.'
                label = ["negative" if number % 2 else "positive"]
                writer.writerow([text] if split == "test" else [text, *label])


@pytest.mark.slow
def test_the_commands_lead_from_csv_files_to_a_served_classifier(tmp_path):
    write_reviews(tmp_path / "reviews")
    write_checkpoints(tmp_path)
    commands = "\n".join(code_blocks("fine_tuning.md", "bash"))
    output = run_in(tmp_path, "bash", "-euc", commands, BERT="uncased_L-2_H-128_A-2")
    lines = output.splitlines()
    # The last line of run_classifier.py is the result and the next command of the
    # document.
    (result,) = (line for line in lines if "Next: " in line)
    baseline = r"\(0\.5000 for a constant prediction\)"
    assert re.match(
        rf"custom: accuracy \d\.\d{{4}} on the dev split {baseline}\. Next: python ",
        result,
    )
    assert "run_scripts/export_model.py --checkpoint=classifier" in result

    # predict.py prints the label, its probability and the text.
    served = [line.split("\t") for line in lines[-2:]]
    assert [row[2] for row in served] == ["A good film.", "Too long."]
    assert {row[0] for row in served} <= {"positive", "negative"}
    results = results_of(tmp_path / "classifier")
    assert {"eval_accuracy", "eval_loss", "eval_macro_f1"} <= results.keys()
