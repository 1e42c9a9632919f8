"""Text to ids: ONE tokenizer, in the graph, equal to the released FullTokenizer.

Read in this order: `vocabulary` (vocab.txt and its checks), `tokenizer` (`BertTokenizer`, what
everyone uses), `inputs` (what it takes), `basic` (text to words), `rare` (the rules that look at
more than one character), `special_tokens` ([MASK] in text, on request), `wordpiece` (words to ids),
`offsets` (back to places in the text), `packing` ([CLS] A [SEP] B [SEP]), `tables` (the characters,
frozen at Unicode 14.0), `make_tables` and `double_array` (the script that made them).

May import: `errors`, `files`, `weights`, tensorflow, tensorflow_text.
"""

from bert_tf.tokenization.basic import BasicTokenizer
from bert_tf.tokenization.tokenizer import BertTokenizer
from bert_tf.tokenization.vocabulary import (
    check_size,
    load_vocabulary,
    validate_case_matches_checkpoint,
)

__all__ = [
    "BasicTokenizer",
    "BertTokenizer",
    "check_size",
    "load_vocabulary",
    "validate_case_matches_checkpoint",
]
