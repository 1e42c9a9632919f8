#!/usr/bin/env bash
# Fine-tunes a model on SWAG (table 4): batches of 16, 3 epochs, learning rate 2e-5.
#
# Hardware   a GPU of 12 GB holds 32 sequences of BERT-Base, and an example has four sequences:
#            --gradient_accumulation_steps=2.
# Time       not known.
# Expected   dev: accuracy 81.6 for BERT-Base, 86.6 for BERT-Large (SIZE=large).
#            This recipe has not been run at this size; a test checks its commands.
#
# MODEL=uncased_L-12_H-768_A-12 SWAG=swag OUT=swag_run \
#   bash run_scripts/recipes/table4_swag.sh [further flags of run_swag.py]
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require MODEL "checkpoint to fine-tune" SWAG "folder with train.csv and val.csv" \
  OUT "folder of the results"

fine_tune run_swag.py "$OUT/swag" --data_dir="$SWAG" --init_checkpoint="$MODEL" \
  --max_seq_length="${LENGTH:-128}" --train_batch_size=16 --learning_rate=2e-5 \
  --num_train_epochs="${EPOCHS:-3}" "$@"

row "SWAG dev" accuracy "$(by_size 81.6 86.6)" "$OUT/swag" "100*eval_accuracy"
print_table "Table 4, SWAG, on dev."
