#!/usr/bin/env bash
# Pretrains BERT-Base as in the paper: 1,000,000 steps of 256 sequences. The first 90 % of the steps
# use length 128, the others length 512. One learning rate schedule covers both phases.
#
# Hardware   16 TPU chips in the paper. --gradient_accumulation_steps and --recompute=true reduce
#            the memory of a training step.
# Time       4 days in the paper.
# Expected   after fine-tuning, on dev (paper, table 5): MNLI-m 84.4, MRPC 86.7, SST-2 92.7.
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# TEXT='wiki/*.txt' VOCAB=vocab.txt CONFIG=bert_config.json OUT=base \
#   bash run_scripts/recipes/pretrain_base.sh [further flags of run_pretraining.py]
set -euo pipefail
: "${TEXT:?globs of text files: one sentence per line, a blank line between documents}"
: "${VOCAB:?vocab.txt}" "${CONFIG:?bert_config.json}" "${OUT:?folder of the results}"
PYTHON=${PYTHON:-python}
BATCH=${BATCH:-256} STEPS=${STEPS:-1000000} WARMUP=${WARMUP:-10000} SHORT=${SHORT:-128} LONG=${LONG:-512}
SHORT_STEPS=$((STEPS * 9 / 10))
here=$(cd "$(dirname "$0")/../.." && pwd)

records() {  # arguments: length, predictions
  "$PYTHON" "$here/data_prep/create_pretraining_data.py" --input_file="$TEXT" --vocab_file="$VOCAB" \
    --output_file="$OUT/records_$1/train.tfrecord" --num_output_shards=16 --max_seq_length="$1" \
    --max_predictions_per_seq="$2" --dupe_factor="${DUPE_FACTOR:-10}" --eval_fraction="${EVAL_FRACTION:-0.01}"
}
pretrain() {  # arguments: length, predictions, folder, flags
  "$PYTHON" "$here/run_scripts/run_pretraining.py" --do_train=true --do_eval=true \
    --input_file="$OUT/records_$1/train-*" \
    --eval_input_file="$OUT/records_$1/train.eval*" --bert_config_file="$CONFIG" \
    --vocab_file="$VOCAB" --max_seq_length="$1" --max_predictions_per_seq="$2" \
    --train_batch_size="$BATCH" --output_dir="$OUT/$3" "${@:4}"
}

records "$SHORT" 20
pretrain "$SHORT" 20 phase1 --num_train_steps="$STEPS" --stop_at_step="$SHORT_STEPS" \
  --num_warmup_steps="$WARMUP" --learning_rate=1e-4 "$@"
records "$LONG" 77
# At the end of the first phase the learning rate is a tenth of its peak, so the second phase starts
# at 1e-5.
pretrain "$LONG" 77 phase2 --init_checkpoint="$OUT/phase1" --num_train_steps=$((STEPS - SHORT_STEPS)) \
  --num_warmup_steps=0 --learning_rate=1e-5 "$@"
