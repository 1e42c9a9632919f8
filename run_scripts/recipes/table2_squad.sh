#!/usr/bin/env bash
# Fine-tunes a model on SQuAD 1.1 (table 2): batches of 32, 3 epochs, learning rate 5e-5.
#
# Hardware   a GPU of 12 GB holds 12 sequences of BERT-Base: --gradient_accumulation_steps=4.
# Time       not known.
# Expected   dev: EM 80.8 and F1 88.5 for BERT-Base; 84.1 and 90.9 for BERT-Large (SIZE=large).
#            This recipe has not been run at this size; a test checks its commands.
#
# MODEL=uncased_L-12_H-768_A-12 SQUAD=squad OUT=squad_run \
#   bash run_scripts/recipes/table2_squad.sh [further flags of run_squad.py]
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require MODEL "checkpoint to fine-tune" SQUAD "folder with train-v1.1.json and dev-v1.1.json" \
  OUT "folder of the results"

fine_tune run_squad.py "$OUT/squad" --train_file="$SQUAD/train-v1.1.json" \
  --predict_file="$SQUAD/dev-v1.1.json" --init_checkpoint="$MODEL" \
  --max_seq_length="${LENGTH:-384}" --train_batch_size=32 --learning_rate=5e-5 \
  --num_train_epochs="${EPOCHS:-3}" "$@"

row "SQuAD 1.1 dev" EM "$(by_size 80.8 84.1)" "$OUT/squad" eval_exact_match
row "SQuAD 1.1 dev" F1 "$(by_size 88.5 90.9)" "$OUT/squad" eval_f1
print_table "Table 2, SQuAD 1.1, on dev."
