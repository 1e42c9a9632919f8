# The two commands of the README and the commands for development.
.PHONY: quickstart smoke test test-all test-slow lint format docs clean

quickstart:
	bash run_scripts/quickstart.sh
smoke:
	bash run_scripts/quickstart.sh --smoke
test: # lint, types and the fast tests: 9 minutes on 2 cores
	bash run_scripts/test.sh
test-all: # all tests except the slow ones: 21 minutes
	bash run_scripts/test.sh --all
test-slow: # all tests: 75 to 90 minutes
	bash run_scripts/test.sh --slow
lint:
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/python -m mypy && .venv/bin/python tools/check_words.py
format:
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .
docs:
	bash -c 'source tools/setup.sh && set_up "[docs]"'
	.venv/bin/python -m sphinx -W --keep-going -n docs build/docs
clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
