"""Programs for the developers of bert-tf, which are not installed with the package.

`make_unicode_tables` generates the character tables of the tokenizer, and uses
`double_array_trie`. `check_words` is a part of the lint step, `test.sh` runs it and the
tests, and `setup.sh` makes the environment. `mutants` measures what the tests notice,
`output_hashes` compares what two commits write, and `count_lines` counts code.
`tools` may import every package; only tests import `tools`.
"""
