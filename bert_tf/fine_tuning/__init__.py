"""Fine-tuning: from a task, its data and a pretrained model to results and predictions.

Read in this order:

1. `fine_tune` is the function for Python users and programs, with its settings in
   `fine_tuning_config`, and `which_checkpoint_to_start_from`: the model that a run
   starts from.
2. `run_data_and_step_counts` reads and encodes the examples of a task, `record_files`
   keeps them on disk, and `batches` makes batches of them.
3. `fine_tuning_run` trains, evaluates and predicts; `evaluation` computes the outputs
   of the model for each example, and `step_costs` the FLOPs and the memory of a step.
4. `class_weights`, `distillation` and `frozen_encoder_and_teacher_cache` change the
   training data.
5. `dev_split` writes the files about the dev split that sweeps and exports read. It
   imports no TensorFlow.
"""
