"""The offline stage: text -> vocabulary -> records. Layer 5: tokenization and layer 0 only.

Files with flags are mains: `make_sample_data`, `train_vocabulary`, `create_pretraining_data`,
`inspect_records`. Every other module is pure functions, in a folder per main.
"""
