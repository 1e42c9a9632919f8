"""The parts that the programs in `run_scripts/` and `data_prep/` share.

Read in this order: `shared_flags` (flags of several programs, and the settings that are
built from them), `trained_run` (values of a trained run for flags that are not given),
`fine_tuning` (the main function of `run_classifier`, `run_squad`, `run_ner`,
`run_swag` and `run_embedding`). `predictions`, with `prediction_tables` and
`projector_files`, reads the texts of `predict` and writes its files; `demo_page` is the
page of `demo`.
"""
