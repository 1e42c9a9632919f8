#!/usr/bin/env bash
# Fine-tunes a model on SQuAD 2.0 (table 3): batches of 48, 2 epochs, learning rate 5e-5. Then
# predicts with the threshold that gives the best F1 on dev, as in the paper.
#
# Hardware   a GPU of 12 GB holds no sequence of BERT-Large with google-research/bert. See
#            --gradient_accumulation_steps and --recompute.
# Time       not known.
# Expected   dev: EM 78.7 and F1 81.9 for BERT-Large.
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# MODEL=uncased_L-24_H-1024_A-16 SQUAD=squad OUT=squad2_run \
#   bash run_scripts/recipes/table3_squad2.sh [further flags of run_squad.py]
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require MODEL "checkpoint to fine-tune" SQUAD "folder with train-v2.0.json and dev-v2.0.json" \
  OUT "folder of the results"

fine_tune run_squad.py "$OUT/squad" --version_2_with_negative=true \
  --train_file="$SQUAD/train-v2.0.json" --predict_file="$SQUAD/dev-v2.0.json" \
  --init_checkpoint="$MODEL" --max_seq_length="${LENGTH:-384}" --train_batch_size=48 \
  --learning_rate=5e-5 --num_train_epochs="${EPOCHS:-2}" "$@"
threshold=$("$PYTHON" "$RECIPES/results_table.py" value "$OUT/squad/squad_threshold.json" \
  null_score_diff_threshold)
run run_scripts/run_squad.py --do_predict=true --predict_file="$SQUAD/dev-v2.0.json" \
  --init_checkpoint="$OUT/squad" --null_score_diff_threshold="$threshold" \
  --output_dir="$OUT/with_threshold" "$@"

row "SQuAD 2.0 dev" EM 78.7 "$OUT/with_threshold" eval_exact
row "SQuAD 2.0 dev" F1 81.9 "$OUT/with_threshold" eval_f1
print_table "Table 3, SQuAD 2.0, BERT-Large, on dev."
