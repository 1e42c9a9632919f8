#!/usr/bin/env bash
# Creates a virtual environment in .venv and runs lint, type checks and tests in it. tools/test.sh does
# the work.
#
#   bash run_scripts/test.sh            lint, types, words and the fast tests
#   bash run_scripts/test.sh --all      also the medium tests; installs the [ci] extra, and JAX, on which
#                                       the tests of the models run too
#   bash run_scripts/test.sh --slow     also the slow tests; installs model weights and, in .venv,
#                                       TensorFlow 2.20 and 2.12
#   bash run_scripts/test.sh PATH ...   all tests of files, those of folders that are not slow, or what
#                                       other arguments of pytest select; without lint
#
# Tests on real text and data sets read the folder in the environment variable BERT_TF_TEST_DATA, which
# contains data/; these tests are skipped if the variable is not set.
set -euo pipefail
exec bash "$(dirname "${BASH_SOURCE[0]}")/../tools/test.sh" "$@"
