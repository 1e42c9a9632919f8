"""The offline stage: text -> vocabulary -> records.

Layer 5: imports `tokenization` and foundation modules.

The mains, which define flags, are `make_sample_data`, `train_vocabulary`, `create_pretraining_data`
and `inspect_records`. `corpus` reads text for all of them; `word_counts` and `vocabulary_learning`
belong to `train_vocabulary`; `pretraining_data` and `runners` create and inspect records;
`sample_data` collects the sample text.
"""
