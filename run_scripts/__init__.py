"""The command-line programs, with the flags of google-research/bert. Layer 7.

Read in this order. No other package imports this one.

1. `shared_flags` defines the flags that several programs share, and builds settings
   from them. `flags_or_trained_run` reads values from a trained run if their flags are
   not given. `fine_tuning_main` is the main function of `run_classifier`, `run_squad`,
   `run_ner` and `run_swag`.
2. `run_pretraining`, `adapt_vocabulary` and `convert_checkpoint` make checkpoints, and
   `extract_features` uses them.
3. `export_model` makes models for servers; `predict` uses them, with the files of
   `prediction_tables` and `projector_files`, and `demo` is a page to try them.
4. `sweep` (its parts are in `sweeps`) and `make_glue_submission` work on several runs;
   `recipes` are the experiments of the paper.
5. `quickstart` is the whole workflow; `quickstart_answers` uses its export.
"""
