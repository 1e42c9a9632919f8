"""Feature extraction: the hidden states of BERT as features of tokens or words.

Layer 3.

Read `extraction_config` (the settings), `token_and_word_vectors` (from lines of text to
features), then `feature_files` (writes features to files). May import layers 0 to 2.

Shape letters: B batch, S sequence length, T tokens or words of a line, K vectors per
token, H hidden size.
"""
