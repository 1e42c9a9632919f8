"""The programs for offline data preparation: text -> vocabulary -> pretraining records.

`make_sample_data`, `train_vocabulary`, `create_pretraining_data` and `inspect_records`.
"""
