"""Offline data preparation: text -> vocabulary -> pretraining records.

Layer 6 of the import order: imports `tokenization` and foundation modules.

The programs, which define flags, are `make_sample_data`, `train_vocabulary`,
`create_pretraining_data` and `inspect_records`. `corpus` reads the input text of
`train_vocabulary` and `create_pretraining_data`; `word_counts` and
`vocabulary_learning` are used by `train_vocabulary`, `word_counts` and `domain_words`
by `adapt_vocabulary` of `run_scripts`; `pretraining_data` and `runners` create and
inspect records; `sample_data` collects the sample text.

TensorFlow is imported inside functions: the flags of the programs are defined from
config classes in these modules, and for local text files the main process of
`create_pretraining_data` leaves all work that needs TensorFlow to its worker processes.
"""
