"""A BERT with 8 hidden units, and the files of its architecture."""

import numpy as np
from json_files import write_json

from bert_tf.config import BertConfig

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "a", "b", "##c", "."]
CONFIG = {
    "vocab_size": 9,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}


def small_config(vocab_size, **changes):
    """Returns a config of two layers with 8 hidden units.

    Changes are of its other values.
    """
    sizes = {
        **CONFIG,
        "num_hidden_layers": 2,
        "intermediate_size": 16,
        "vocab_size": vocab_size,
    }
    return BertConfig(**{**sizes, **changes})


def random_inputs(lengths, seq_length, vocab_size=50, seed=0):
    """Returns the inputs of a model for texts of these numbers of tokens, int32."""
    mask = np.arange(seq_length) < np.array(lengths, int)[:, None]
    ids = np.random.default_rng(seed).integers(1, vocab_size, mask.shape) * mask
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": ids % 2}
    return {name: values.astype(np.int32) for name, values in inputs.items()}


def write_architecture(folder, vocabulary=VOCABULARY, hidden_size=8, **changes):
    """Writes vocab.txt and config.json; changes are of further values in the config."""
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    sizes = {"hidden_size": hidden_size, "intermediate_size": hidden_size}
    config = {**CONFIG, "vocab_size": len(vocabulary), **sizes, **changes}
    write_json(folder / "config.json", config)
