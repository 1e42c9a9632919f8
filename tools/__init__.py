"""Programs for the developers of bert-tf, which are not installed with the package.

`make_unicode_tables` generates the character tables of the tokenizer, and uses
`double_array_trie`. `check_types.sh` and `check_words` are parts of the lint step.
`tools` may import every package; only tests import `tools`.
"""
