"""Fine-tuning: from a task, its data and a pretrained model to results and predictions.

Read in this order:

1. `fine_tune` is the function for Python users and programs, with `fine_tuning_config`,
   `distillation_config`, and `run_model`: the model that a run starts from.
2. `task_data` reads and encodes the examples of a task, `record_files` keeps them on
   disk, and `batches` makes batches of them.
3. `run_phases` trains, evaluates and predicts; `run_checks` looks at its results, and
   `evaluation` computes the outputs of the model for each example.
4. `class_weights`, `distillation` and `feature_cache` change the training data, and
   `step_costs` counts the operations of a step.
5. `dev_examples` and `dev_result` are files of a run for exports and comparisons.
"""
