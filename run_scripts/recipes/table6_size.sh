#!/usr/bin/env bash
# Runs the ablation of the model size (table 6): pretrains models of six sizes on the same records,
# and fine-tunes each of them with five seeds.
#
# Hardware   16 TPU chips in the paper for L=12 H=768, 64 for L=24 H=1024.
# Time       4 days in the paper for each of these two sizes.
# Expected   dev, mean of five restarts
#             L     H   A  LM perplexity  MNLI-m  MRPC  SST-2
#             3   768  12           5.84    77.9  79.8   88.4
#             6   768   3           5.24    80.6  82.2   90.7
#             6   768  12           4.68    81.9  84.8   91.3
#            12   768  12           3.99    84.4  86.7   92.9
#            12  1024  16           3.54    85.7  86.9   93.3
#            24  1024  16           3.23    86.6  87.8   93.7
#            This recipe has not been run at this size; a test checks its commands.
#
# TEXT='wiki/*.txt' VOCAB=vocab.txt GLUE=glue_data OUT=sizes \
#   bash run_scripts/recipes/table6_size.sh [further flags of run_pretraining.py]
#
# SIZES (such as "3-768-12 6-768-3") and TASKS select some of the sizes and tasks. The paper does not
# give the settings of the fine-tuning; RATE and EPOCHS change them. HIDDEN_DIVISOR divides H.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require_corpus
require GLUE "folder with the folders of the tasks"
SIZES=${SIZES:-3-768-12 6-768-3 6-768-12 12-768-12 12-1024-16 24-1024-16}
TASKS=${TASKS:-MNLI MRPC SST-2}
for task in $TASKS; do require_files "$GLUE/$task"; done

make_records "$OUT"

# Pretrains and fine-tunes one size, and adds its rows.
# Arguments: L, H, A, four figures of the paper, flags.
size() {
  local name=$1-$2-$3 hidden=$(($2 / ${HIDDEN_DIVISOR:-1})) task
  local folder=$OUT/$name label="L=$1 H=$2 A=$3"
  if contains "$SIZES" "$name"; then
    mkdir -p "$folder"
    printf '{"vocab_size": %d, "hidden_size": %d, "num_hidden_layers": %d, %s %d, %s %d, %s}\n' \
      "$(grep -c '' "$VOCAB")" "$hidden" "$1" '"num_attention_heads":' "$3" \
      '"intermediate_size":' $((4 * hidden)) '"type_vocab_size": 2' >"$folder/bert_config.json"
    pretrain "$OUT" "$folder" --bert_config_file="$folder/bert_config.json" \
      --max_eval_steps="${EVAL_STEPS:-1000}" "${@:8}"
    for task in $TASKS; do
      sweep run_classifier.py "$folder/$task" "${RATE:-2e-5}" "${SEEDS:-5}" --task_name="$task" \
        --data_dir="$GLUE/$task" --init_checkpoint="$(last_phase "$folder")" \
        --max_seq_length="${LENGTH:-128}" --train_batch_size=32 --num_train_epochs="${EPOCHS:-3}"
    done
  fi
  row "$label" "LM perplexity" "$4" "$(last_phase "$folder")" "exp(masked_lm_loss)"
  row "$label" MNLI-m "$5" "$folder/MNLI" "100*eval_accuracy"
  row "$label" MRPC "$6" "$folder/MRPC" "100*eval_accuracy"
  row "$label" SST-2 "$7" "$folder/SST-2" "100*eval_accuracy"
}
size 3 768 12 5.84 77.9 79.8 88.4 "$@"
size 6 768 3 5.24 80.6 82.2 90.7 "$@"
size 6 768 12 4.68 81.9 84.8 91.3 "$@"
size 12 768 12 3.99 84.4 86.7 92.9 "$@"
size 12 1024 16 3.54 85.7 86.9 93.3 "$@"
size 24 1024 16 3.23 86.6 87.8 93.7 "$@"
print_table "Table 6, model size, on dev. GLUE: accuracy, mean of the restarts."
