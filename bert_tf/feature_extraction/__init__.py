"""Feature extraction: the hidden states of BERT as features of tokens or words.

Read `extraction_config` (the settings), `extractor` (from lines of text to features),
then `feature_files` (writes features to files).

Shape letters: B batch, S sequence length, T tokens or words of a line, K vectors per
token, H hidden size.
"""
