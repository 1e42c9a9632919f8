"""Runs: from data and a pretrained model to checkpoints, results and predictions.

Read in this order:

1. `pretrain` is the function for pretraining.
2. `fine_tune` is the function for a task, with its settings in `fine_tuning_config`.
   Both start from the model of `run_model`; `initial_model` reads further models that
   fine-tuning starts from, such as a teacher. `run_identity` has the values that
   identify a run, and those that are saved about its model.
3. `run_data` reads and encodes the examples of a task, `record_files` keeps them on
   disk, and `batches` makes batches of them.
4. `task_training` builds the model and trains it; `evaluation` computes the outputs of
   the model for each example, `split_results` writes their results, and `step_costs`
   has the FLOPs and the memory of a step.
5. `class_weights`, `distillation` and `output_cache` change the training data.
6. `dev_split` writes the files about the dev split that sweeps and exports read. It
   imports no TensorFlow.
"""
