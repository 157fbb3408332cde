# The commands of this repository; `make` alone lists them. Each makes the environment first, if it is not up to date.
VENV := .venv
PYTHON := $(VENV)/bin/python
ENVIRONMENT := $(VENV)/.up-to-date
DOCS_VENV := .venv-docs
WITH_ENGINE := scripts/with-engine
# Where the runs of `make run` and `make ui` are kept, so that one sees the other's.
DAGSTER := DAGSTER_HOME="$(CURDIR)/.dagster" DAGSTER_DISABLE_TELEMETRY=yes

# What can be given: make run DAYS=7; make test ARGS="-k windows"; make ui PORT=3001; make soak KILLS=1000 HISTORIES=100000; make test WORKERS=4
DAYS := 31
ARGS :=
PORT := 3000
KILLS := 300
HISTORIES := 10000
SCHEDULES := 1000000
CHANGES := 300
FLINK := 200
DATA_SETS := 5000
SOAK_SECONDS := 3600
export WORKERS := 2

.DELETE_ON_ERROR:
.PHONY: help env run test slow ui lint types lock proto soak bench compare compat docs clean

help: ## List the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F '|' '{ printf "make %-8s %s\n", $$1, $$2 }'

env: $(ENVIRONMENT) ## Make the environment (.venv) from requirements.lock

$(ENVIRONMENT): requirements.lock pyproject.toml scripts/make-env
	scripts/make-env $(VENV)
	@touch $@

run: env ## Run the flights job over a month in daily epochs through Dagster, and show its results
	@mkdir -p .dagster
	$(DAGSTER) $(WITH_ENGINE) $(PYTHON) -m jobs.run --days $(DAYS)

test: env ## Run the tests, but for the slow ones
	$(WITH_ENGINE) scripts/run-tests $(PYTHON) "not slow" $(ARGS)

slow: env ## Run the slow tests: real kills, random input against a plain computation, small memory, a cluster, a browser
	$(WITH_ENGINE) scripts/run-tests $(PYTHON) slow $(ARGS)

ui: env ## Open Dagster's UI on the same definitions and runs
	@mkdir -p .dagster
	$(DAGSTER) $(WITH_ENGINE) $(PYTHON) -m dagster dev --workspace workspace.yaml --port $(PORT)

lint: env ## Check style, format, spelling, names, sentences and the import rules
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(VENV)/bin/codespell
	$(VENV)/bin/lint-imports
	$(PYTHON) scripts/lint_words.py

types: env ## Check the types
	$(PYTHON) -m mypy

lock: env ## Renew requirements.lock after a change of pyproject.toml (ARGS=--upgrade takes the newest versions)
	$(PYTHON) -m uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --extra kafka --extra native --extra objects --extra postgres --extra sail --group dev \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file requirements.lock $(ARGS)
	$(PYTHON) -m uv pip compile --quiet --universal --python-version 3.11 --group docs \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" --output-file requirements-docs.lock $(ARGS)

proto: env ## Make the Python of the .proto files anew
	scripts/make-proto $(PYTHON)

soak: env ## Kill the real process at random moments, KILLS times; try HISTORIES of a storage root, SCHEDULES of runs and CHANGES of programs at random, and every power cut; DATA_SETS programs of data sets, and FLINK of them beside Flink itself; then random programs for SOAK_SECONDS
	DAGSTER_OPERATORS_KILLS=$(KILLS) DAGSTER_OPERATORS_HISTORIES=$(HISTORIES) DAGSTER_OPERATORS_SCHEDULES=$(SCHEDULES) \
		DAGSTER_OPERATORS_CHANGES=$(CHANGES) DAGSTER_OPERATORS_DAMAGES=3 \
		DAGSTER_OPERATORS_DATA_SETS=$(DATA_SETS) DAGSTER_OPERATORS_FLINK=$(FLINK) \
		$(WITH_ENGINE) $(PYTHON) -m pytest -s tests/transactions/test_random_schedules.py tests/crash/test_random_kills.py \
		tests/crash/test_changes_kills.py tests/end_to_end/test_any_change.py tests/end_to_end/test_told_is_done.py tests/transactions/test_random_histories.py \
		tests/transactions/test_power_cut.py tests/api/datasets/drawn tests/soak/flink --timeout 0 $(ARGS)
	$(WITH_ENGINE) $(PYTHON) -m tests.soak --seconds $(SOAK_SECONDS) --spark

bench: env ## Measure speed beside Structured Streaming, one JSON line for each claim
	$(WITH_ENGINE) $(PYTHON) -m benchmarks $(ARGS)

compare: env ## Ask both engines the same expressions, and write docs/engines_compared.md
	$(WITH_ENGINE) $(PYTHON) -m tests.conformance

compat: env ## Run a choice of tests with the lowest and with the highest versions of all dependencies (ARGS=lowest-direct: of one)
	$(WITH_ENGINE) scripts/compat $(PYTHON) $(ARGS)

docs: $(DOCS_VENV)/.up-to-date ## Build the site of docs/ into site/; a warning is an error
	$(DOCS_VENV)/bin/zensical build --strict --clean

$(DOCS_VENV)/.up-to-date: requirements-docs.lock | env
	$(PYTHON) -m uv venv --quiet --allow-existing $(DOCS_VENV)
	$(PYTHON) -m uv pip sync --quiet --python $(DOCS_VENV)/bin/python --require-hashes requirements-docs.lock
	@touch $@

clean: ## Remove everything the other commands made: environment, caches, data, runs
	find dagster_operators jobs tests examples -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(VENV) $(DOCS_VENV) .cache site .dagster data artifacts *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
