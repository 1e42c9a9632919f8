#!/usr/bin/env bash
# Pretrains BERT-Base with the settings of MosaicML's plain BERT, the baseline of MosaicBERT: 70,000
# steps of 4,096 sequences of 128 tokens (286,720,000 sequences), masked LM without next sentence.
#
# Hardware   8 A100 with 80 GB in MosaicML's run. --gradient_accumulation_steps and --recompute=true
#            reduce the memory of a training step.
# Time       11.5 hours in MosaicML's run. --time_budget_secs=N instead trains for N seconds.
# Expected   after fine-tuning, average of GLUE on dev (without WNLI) about 83.3 (MosaicML).
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# Source     github.com/mosaicml/examples, examples/bert: README.md and
#            yamls/main/hf-bert-base-uncased.yaml. CONFIG is the released bert_config.json of
#            BERT-Base, uncased, but with attention_probs_dropout_prob 0.
# Different  Their learning rate ends at 0.02 of its peak, ours at 0. Their text is C4, each sequence
#            the start of one document; TEXT is yours, and a sequence contains sentences until it is
#            full. They also decay biases and LayerNorm.
#
# TEXT='c4/*.txt' VOCAB=vocab.txt CONFIG=bert_config.json OUT=mosaic_bert [GLUE=glue] \
#   bash run_scripts/recipes/mosaic_bert.sh [further flags of run_pretraining.py]
set -euo pipefail
: "${TEXT:?globs of text files: one sentence per line, a blank line between documents}"
: "${VOCAB:?vocab.txt}" "${CONFIG:?bert_config.json}" "${OUT:?folder of the results}"
PYTHON=${PYTHON:-python}
BATCH=${BATCH:-4096} STEPS=${STEPS:-70000} LENGTH=${LENGTH:-128} PRECISION=${PRECISION:-bfloat16}
WARMUP=${WARMUP:-$((STEPS * 6 / 100))}
here=$(cd "$(dirname "$0")/../.." && pwd)

"$PYTHON" "$here/data_prep/create_pretraining_data.py" --input_file="$TEXT" --vocab_file="$VOCAB" \
  --output_file="$OUT/records/train.tfrecord" --num_output_shards=16 --objective=mlm \
  --max_seq_length="$LENGTH" --max_predictions_per_seq=20 --masked_lm_prob=0.15 \
  --dupe_factor="${DUPE_FACTOR:-1}" --eval_fraction="${EVAL_FRACTION:-0.001}"
# MosaicML's weight decay of 1e-5 is not multiplied by the learning rate; ours is: 1e-5 / 5e-4 = 0.02
# is the same decay. Epsilon is 1e-6 in both. Gradients are not clipped.
"$PYTHON" "$here/run_scripts/run_pretraining.py" --do_train=true --do_eval=true \
  --input_file="$OUT/records/train-*" --eval_input_file="$OUT/records/train.eval*" \
  --objective=mlm --bert_config_file="$CONFIG" --vocab_file="$VOCAB" --max_seq_length="$LENGTH" \
  --max_predictions_per_seq=20 --train_batch_size="$BATCH" --num_train_steps="$STEPS" \
  --num_warmup_steps="$WARMUP" --learning_rate=5e-4 --schedule=linear --optimizer=adamw \
  --adam_beta_1=0.9 --adam_beta_2=0.98 --weight_decay_rate=0.02 --clip_norm=1e9 \
  --precision="$PRECISION" --output_dir="$OUT/model" "$@"
if [ -n "${GLUE:-}" ]; then
  echo "The weights are in $OUT/model. To fine-tune on GLUE:"
  echo "  GLUE='$GLUE' bash run_scripts/recipes/table1_glue.sh"
fi
