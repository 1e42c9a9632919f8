"""The command-line programs, with the flags of google-research/bert.

Read in this order.

1. `run_pretraining`, `adapt_vocabulary` and `convert_checkpoint` make checkpoints, and
   `extract_features` uses them. `run_classifier`, `run_squad`, `run_ner` and `run_swag`
   fine-tune them.
2. `export_model` makes models for servers; `predict` uses them, and `demo` is a page to
   try them.
3. `sweep` and `make_glue_submission` work on several runs; `recipes` are the
   experiments of the paper.
4. `quickstart` is the whole workflow; `quickstart_answers` uses its export.
"""
