PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
SPEED_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
PACKAGING := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test check bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed ## Install into .venv and run the two worked examples
	@$(BIN)/ctxarith demo

test: $(VENV)/.installed-dev ## Run the tests (more options: PYTEST_ARGS="-k budget")
	@$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

check: $(VENV)/.installed-dev ## Lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-bench ## Run the benchmarks (a quicker one: SPEED_ARGS="--records 10000")
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/speed.py $(SPEED_ARGS)

clean: ## Remove the virtual environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ctxarith needs Python 3.11 or newer: make PYTHON=/path/to/python3")'
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created $(PACKAGING)
	@echo "Installing ctxarith into $(VENV)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.created $(PACKAGING)
	@echo "Installing ctxarith, its extras and the development tools into $(VENV) (a few minutes the first time)"
	@$(PIP) -e '.[dev,eval,notebooks,langchain,llamaindex]'
	@touch $(VENV)/.installed $@

# The peers of the benchmarks; the library has no use for them.
$(VENV)/.installed-bench: $(VENV)/.installed-dev
	@$(PIP) 'bm25s>=0.2,<0.4' 'langchain-community>=0.4' 'llama-index-retrievers-bm25>=0.7' 'pandas>=2'
	@touch $@
