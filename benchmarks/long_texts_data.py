r"""Makes a data set of long texts: the label of a whole docstring is its library.

The texts are those of the sample data, and so are the parts (train, dev, test). The
names of the libraries are removed from the texts.

    python benchmarks/long_texts_data.py --output_dir=/tmp/docstrings
    python run_scripts/run_classifier.py --task_name=custom --data_dir=/tmp/docstrings \
        --max_seq_length=64 --long_texts=windows ...
"""

import csv
import os
import random

from absl import flags

from bert_tf.program import command_line
from bert_tf.sample_data import documentation, sentences
from bert_tf.sample_data import splits as split
from bert_tf.sample_data.classification_set import CLASSIFICATION_COLUMNS, LIBRARY_NAMES

FLAGS = flags.FLAGS
flags.DEFINE_string("output_dir", None, "Folder for train.csv, dev.csv and test.csv.")
flags.DEFINE_integer("min_words", 20, "Docstrings with fewer words are left out.")
flags.DEFINE_integer(
    "max_train_texts", 6000, "The largest number of texts in train.csv."
)
flags.mark_flags_as_required(["output_dir"])
_SEED = 12345  # the default of the sample data


def main() -> None:
    """Writes the three files, with the texts of a part in random order."""
    sources = [
        f
        for f in documentation.list_source_files()
        if f.library in documentation.LABELS
    ]
    docstrings = documentation.read_docstrings(sources, 0, os.cpu_count() or 1)
    distinct = {
        tuple(s.text for s in each.texts): each
        for each in sentences.split_into_sentences(docstrings)
    }
    documents = split.remove_boilerplate(list(distinct.values()))
    rows: dict[str, list[tuple[str, str]]] = {part: [] for part in split.PARTS}
    parts = split.assign_parts(documents, 0.2, _SEED)
    for document, part in zip(documents, parts, strict=True):
        text = LIBRARY_NAMES.sub(
            "", " ".join(sentence.text for sentence in document.texts)
        )
        if len(text.split()) >= FLAGS.min_words:
            rows[part].append((text, documentation.LABELS[document.library]))
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    for part, found in rows.items():
        random.Random(_SEED).shuffle(found)
        found = found[: FLAGS.max_train_texts] if part == "train" else found
        with open(
            os.path.join(FLAGS.output_dir, f"{part}.csv"), "w", encoding="utf-8"
        ) as file:
            csv.writer(file, lineterminator="\n").writerows(
                [CLASSIFICATION_COLUMNS, *found]
            )
        print(f"{part}: {len(found):,} texts")


if __name__ == "__main__":
    command_line.run(main)
