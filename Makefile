# Everything a contributor runs. Needs Python 3.11 or newer, make and pip; the rest goes into .venv
# and .cache of this checkout, so that clones beside each other do not meet.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first Python that is new enough. `make PYTHON=python3.13 …` chooses another for a new .venv.
PYTHON ?= $(shell for python in python3 python python3.11 python3.12 python3.13 python3.14; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { echo "$$python"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOCK := $(wildcard uv.lock)
# --inexact keeps uv itself and the compiled MariaDB client, which no default group names.
SYNC := UV_PROJECT_ENVIRONMENT=$(VENV) UV_PYTHON_DOWNLOADS=never $(BIN)/uv sync --quiet --inexact \
	--all-extras $(if $(LOCK),--locked)
COVERAGE := COVERAGE_FILE="$(CURDIR)/.cache/coverage/data" $(BIN)/coverage
# A shell condition. Any other status than 0 and 3 (not reachable, said in a line) ends the recipe.
answers = { status=0; $(BIN)/python -m tests.reachable $(1) || status=$$?; \
	case $$status in 0) true;; 3) false;; *) exit $$status;; esac; }
PYTEST_ARGS ?=
# What asks no database, or brings its own: once, on SQLite, is enough.
ANY_DATABASE := --ignore tests/transcripts --ignore tests/example --ignore tests/test_payloads.py \
	--ignore tests/test_benchmarks.py
SERVE ?= 1

.PHONY: help
help: ## List what can be made.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- Environment ---------------------------------------------------------------------------------

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer was not found." >&2; exit 1; fi
	@# Where venv cannot bring its own pip (Debian without python3-venv), Python's pip serves.
	@"$(PYTHON)" -m venv $(VENV) >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear --without-pip $(VENV)

$(BIN)/uv: | $(BIN)/python
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; \
	then $(BIN)/python -m pip install --quiet "uv>=0.9"; \
	else "$(PYTHON)" -m pip --python $(BIN)/python install --quiet "uv>=0.9"; fi

$(INSTALLED): pyproject.toml $(LOCK) | $(BIN)/uv
	@echo "Installing into $(VENV) …"
	@$(SYNC)
	@touch $@

.PHONY: install
install: $(INSTALLED) ## Make .venv with everything for development.

.PHONY: mariadb-client
mariadb-client: $(INSTALLED)
	@$(BIN)/python -c "import MySQLdb" 2>/dev/null || { mkdir -p .cache \
	&& $(SYNC) --group mariadb >.cache/mariadb-client.log 2>&1; } || { echo "MariaDB: mysqlclient\
	 could not be compiled; it needs libmariadb-dev, pkg-config and a C compiler\
	 (.cache/mariadb-client.log)" >&2; exit 1; }

# --- Demo ----------------------------------------------------------------------------------------

.PHONY: demo
demo: $(INSTALLED) ## Run and restore conversations, then serve them (SERVE=0 ends instead).
	@$(BIN)/python manage.py demo $(if $(filter 0,$(SERVE)),--no-serve)

# --- Tests ---------------------------------------------------------------------------------------

.PHONY: test
test: $(INSTALLED) ## Run all tests on SQLite and on each database server that answers.
	@# The servers' tests wait more than they work, so both run at once; what PostgreSQL's print
	@# comes after MariaDB's.
	@failed= postgresql=; log=.cache/test-postgresql.log; mkdir -p .cache; \
	$(MAKE) test-sqlite || failed+=" SQLite"; \
	if $(call answers,postgresql); then $(MAKE) test-postgresql >$$log 2>&1 & postgresql=$$!; fi; \
	if ! $(call answers,mariadb --port); then :; \
	elif ! $(MAKE) mariadb-client; then echo "MariaDB: its tests were not run"; \
	elif $(call answers,mariadb); then $(MAKE) test-mariadb || failed+=" MariaDB"; fi; \
	if [ -n "$$postgresql" ]; then \
		wait $$postgresql || failed+=" PostgreSQL"; cat $$log; fi; \
	if [ -n "$$failed" ]; then echo "Failed on:$$failed" >&2; exit 1; fi

.PHONY: test-sqlite
test-sqlite: $(INSTALLED) ## Run all tests on SQLite; branch coverage has to be 95 % or more.
	@mkdir -p .cache/coverage
	@$(COVERAGE) erase
	TEST_DATABASE=sqlite $(COVERAGE) run -m pytest $(PYTEST_ARGS)
	@$(COVERAGE) combine --quiet
	@$(COVERAGE) report

.PHONY: test-postgresql
test-postgresql: $(INSTALLED) ## Run the database's tests on PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD).
	TEST_DATABASE=postgresql $(BIN)/python -m pytest $(ANY_DATABASE) $(PYTEST_ARGS)

.PHONY: test-mariadb
test-mariadb: mariadb-client ## Run the database's tests on MariaDB (MYSQL_HOST, _PORT, _USER, _PASSWORD).
	TEST_DATABASE=mariadb $(BIN)/python -m pytest $(ANY_DATABASE) $(PYTEST_ARGS)

# --- Checks --------------------------------------------------------------------------------------

.PHONY: check
check: lint types imports migrations-check docs ## Run every check that is not a test.

.PHONY: lint
lint: $(INSTALLED) ## Check style and formatting.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: format
format: $(INSTALLED) ## Correct what can be corrected of both.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: $(INSTALLED) ## Check types.
	$(BIN)/mypy

.PHONY: imports
imports: $(INSTALLED) ## Check who imports whom.
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter

.PHONY: migrations-check
migrations-check: $(INSTALLED) ## Check that the migrations say what the models say.
	$(BIN)/python manage.py makemigrations --check --dry-run --settings tests.settings agent_sessions

.PHONY: docs
docs: $(INSTALLED) ## Build the documentation; a warning is an error.
	$(BIN)/sphinx-build -W --keep-going -q -d .cache/doctrees -b html docs docs/_build/html

.PHONY: build
build: $(INSTALLED) ## Build the wheel and the source distribution into dist/.
	@rm -rf dist
	UV_PYTHON_DOWNLOADS=never $(BIN)/uv build --quiet --python $(BIN)/python --out-dir dist
	@ls dist

.PHONY: bench
bench: $(INSTALLED) ## Measure against other session stores and the raw drivers.
	@$(SYNC) --group bench
	$(BIN)/python -m benchmarks

.PHONY: clean
clean: ## Remove what was made here, .venv included.
	rm -rf $(VENV) .cache .hypothesis dist docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
