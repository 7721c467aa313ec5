# Everything a contributor runs. Needs Python 3.11 or newer, make and pip; the rest goes into .venv
# and .cache of this checkout, so that clones beside each other do not meet.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Else each worker and each of the hundreds of processes compiles Django, the SDKs and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

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
	--extra all $(if $(LOCK),--locked)
COVERAGE := COVERAGE_FILE="$(CURDIR)/.cache/coverage/data" $(BIN)/coverage
# A shell condition. Any other status than 0 and 3 (not reachable, said in a line) ends the recipe.
answers = { status=0; $(BIN)/python -m tests.reachable $(1) || status=$$?; \
	case $$status in 0) true;; 3) false;; *) exit $$status;; esac; }
PYTEST_ARGS ?=
PYTEST = $(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS)
# Workers of pytest-xdist, each with a database of its own. `-n auto` is what tests.kinds says, and
# a file's tests stay together, because what they share is made once in a worker.
SPREAD ?= -n auto --dist loadfile --no-loadscope-reorder
# What asks a database nothing that another one could answer otherwise.
WITHOUT_DATABASE := $(patsubst %,tests/test_%.py,architecture benchmarks catalogues conf exceptions \
	faults load makefile promises public_face starting unheeded_warnings version) \
	tests/governance/test_content_columns.py
# What each database server is asked for; pages, wires, formats, storages, and the scenarios of
# adapters, which write by the store alone, are tested on SQLite.
ON_SERVERS := tests/store tests/concurrency tests/audit tests/db tests/governance tests/leases \
	tests/management tests/models tests/operations tests/queries tests/serving tests/testing tests/usage \
	tests/values/test_owners_matrix.py tests/rest/test_quotas.py \
	$(wildcard tests/rest/events/test_[cr]*.py) \
	$(patsubst %,tests/blobs/test_%.py,moments statements store together) \
	tests/integrity/test_closing.py $(patsubst %,tests/encryption/test_%.py,backup command dump \
	encryption rotation) \
	tests/interchange/importing tests/interchange/jsonl_reading \
	$(wildcard tests/adapters/*/test_contract*.py tests/adapters/*/test_processes.py) \
	$(wildcard tests/adapters/*/test_redacted_elsewhere.py tests/adapters/*/test_rollback.py) \
	$(wildcard tests/adapters/strands/snapshots/test_e*.py) \
	$(wildcard tests/adapters/openai_agents/test_advanced_*.py) \
	tests/adapters/test_first_message.py tests/adapters/openai_agents/test_session.py \
	tests/adapters/strands/test_interleaved.py \
	$(wildcard tests/contexts/test_[cjlt]*.py) tests/contexts/test_views.py \
	tests/rest/chat/assistant_ui/test_processes.py tests/admin/test_list.py tests/admin/test_databases.py \
	$(filter-out tests/rest/test_openapi.py,$(wildcard tests/rest/test_[m-p]*.py)) \
	tests/rest/test_redacting.py \
	tests/rest/test_sessions.py tests/rest/test_statements.py tests/scale/test_batches.py \
	$(filter-out $(WITHOUT_DATABASE),$(wildcard tests/test_*.py)) \
	$(addprefix --ignore=,$(filter-out tests/test_%,$(WITHOUT_DATABASE)))
# And what only PostgreSQL has, or does in a way of its own.
ON_POSTGRESQL := $(ON_SERVERS) tests/rest/events tests/rest/test_every_request.py tests/contexts/test_kills.py tests/scale
SERVE ?= 1

BENCH := .cache/bench
# The newest Python that is there, pyenv's included: some of the measured stores need 3.12.
BENCH_PYTHON = $(shell for python in python3.14 python3.13 python3.12 \
	$$(ls -rd "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[234].*/bin/python3 2>/dev/null) \
	"$(PYTHON)"; do "$$python" -c 'import sys; print(sys.executable)' 2>/dev/null && break; done)
BENCH_ARGS ?=

.PHONY: help
help: ## List what can be made.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- Environment ---------------------------------------------------------------------------------

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer was not found: install it, or name \
	one with make PYTHON=/path/to/python3" >&2; exit 1; fi
	@for module in sqlite3 ssl venv; do "$(PYTHON)" -c "import $$module" 2>/dev/null || { \
	echo "$(PYTHON) has no module $$module: install its system package (Debian: python3-full), or \
	name another Python with make PYTHON=/path/to/python3" >&2; exit 1; }; done
	@# Where venv cannot bring its own pip (Debian without python3-venv), Python's pip serves.
	@"$(PYTHON)" -m venv $(VENV) >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear --without-pip $(VENV)

$(BIN)/uv: | $(BIN)/python
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; \
	then $(BIN)/python -m pip install --quiet "uv>=0.9"; \
	elif "$(PYTHON)" -m pip --version >/dev/null 2>&1; \
	then "$(PYTHON)" -m pip --python $(BIN)/python install --quiet "uv>=0.9"; \
	else echo "$(PYTHON) has no pip: install its system package (Debian: python3-pip)" >&2; exit 1; fi

$(INSTALLED): pyproject.toml $(LOCK) | $(BIN)/uv
	@echo "Installing into $(VENV) …"
	@$(SYNC)
	@touch $@

.PHONY: install
install: $(INSTALLED) ## Make .venv with everything for development.

# A shell condition: the MariaDB client is installed, or can be. It is compiled.
mariadb_client = { $(BIN)/python -c "import MySQLdb" 2>/dev/null || { mkdir -p .cache \
	&& $(SYNC) --group mariadb >.cache/mariadb-client.log 2>&1; }; }
WITHOUT_CLIENT := mysqlclient could not be compiled; it needs libmariadb-dev, pkg-config and a C \
	compiler (.cache/mariadb-client.log)

.PHONY: mariadb-client
mariadb-client: $(INSTALLED)
	@$(mariadb_client) || { echo "MariaDB: $(WITHOUT_CLIENT)" >&2; exit 1; }

# --- Translations --------------------------------------------------------------------------------

LANGUAGES := de es fr ja
CATALOGUES := django_agent_sessions:django example_project/chat:django example_project/chat:djangojs

.PHONY: messages
messages: $(INSTALLED) ## Extract the strings to translate, and compile the catalogues. Needs GNU gettext.
	@for each in $(CATALOGUES); do (cd "$${each%%:*}" && "$(CURDIR)/$(BIN)/django-admin" makemessages \
	-v 0 -d "$${each##*:}" $(addprefix -l ,$(LANGUAGES)) --add-location=file --no-obsolete); done
	@for folder in $(sort $(foreach each,$(CATALOGUES),$(firstword $(subst :, ,$(each))))); do \
	(cd "$$folder" && "$(CURDIR)/$(BIN)/django-admin" compilemessages -v 0); done

# --- Demo ----------------------------------------------------------------------------------------

.PHONY: demo
demo: $(INSTALLED) ## Run and restore conversations, then serve them (SERVE=0 ends instead).
	@$(BIN)/python manage.py demo $(if $(filter 0,$(SERVE)),--no-serve)

# --- Tests ---------------------------------------------------------------------------------------

.PHONY: test
test: $(INSTALLED) ## Run the tests that need SQLite and no other process, and tell what they leave out.
	@# A property is tried with few examples; `make test-all` tries more.
	@TEST_DATABASE=sqlite HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} $(PYTEST) -m in_process

.PHONY: test-all
test-all: $(INSTALLED) ## Run all tests on SQLite, and those of the database on each server that answers.
	@failed=; for part in test-sqlite try-postgresql try-mariadb; do start=$$SECONDS; \
	$(MAKE) $$part || failed="$$failed $$part"; \
	echo "$$part: $$((SECONDS - start)) s"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

.PHONY: test-sqlite
test-sqlite: $(INSTALLED) ## Run all tests on SQLite, those in a browser and under Node included.
	TEST_DATABASE=sqlite $(PYTEST)

SEAMS := TEST_DATABASE=sqlite HYPOTHESIS_PROFILE=quick $(PYTEST) -m in_process $(addprefix tests/,\
	adapters admin blobs content governance integrity interchange models queries rest store)

.PHONY: test-sealed
test-sealed: $(INSTALLED) ## Run the tests of what reads and writes content with a toy cipher.
	TEST_CODEC=toy $(SEAMS)

.PHONY: test-encrypted
test-encrypted: $(INSTALLED) ## Run the same tests with encryption.
	TEST_CODEC=encryption $(SEAMS)

.PHONY: test-scoped
test-scoped: $(INSTALLED) ## Run the same tests with a scope of session keys that is not empty.
	TEST_SCOPE=tenant-1 $(SEAMS)

.PHONY: test-pages
test-pages: $(INSTALLED) ## Run the tests in a browser and under Node.
	TEST_DATABASE=sqlite $(PYTEST) -m "browser or node"

.PHONY: coverage
coverage: $(INSTALLED) ## Run all tests on SQLite and tell what they reach: branches, 95 % or more.
	@# Apart from the tests, because being counted makes them take twice as long.
	@rm -rf .cache/coverage; mkdir -p .cache/coverage; failed=; \
	TEST_DATABASE=sqlite $(COVERAGE) run -m pytest $(SPREAD) $(PYTEST_ARGS) || failed=1; \
	$(COVERAGE) combine --quiet && $(COVERAGE) report || failed=1; [ -z "$$failed" ]

.PHONY: try-postgresql
try-postgresql: $(INSTALLED)
	@if $(call answers,postgresql); then $(MAKE) test-postgresql; fi

.PHONY: try-mariadb
try-mariadb: $(INSTALLED)
	@if ! $(call answers,mariadb --port); then :; \
	elif ! $(mariadb_client); then echo "MariaDB: $(WITHOUT_CLIENT), its tests were not run"; \
	elif $(call answers,mariadb); then $(MAKE) test-mariadb; fi

# Many examples of a property are tried on SQLite.
ON_SERVER = HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick} TEST_DATABASE=$(1) $(PYTEST)

.PHONY: test-postgresql
test-postgresql: $(INSTALLED) ## Run the database's tests on PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD).
	$(call ON_SERVER,postgresql) $(ON_POSTGRESQL)

.PHONY: test-mariadb
test-mariadb: mariadb-client ## Run the database's tests on MariaDB (MYSQL_HOST, _PORT, _USER, _PASSWORD).
	$(call ON_SERVER,mariadb) $(ON_SERVERS)

.PHONY: sdk-versions
sdk-versions: $(INSTALLED) ## Run the contract kit with each older release of the SDKs that is supported.
	@UV_PROJECT_ENVIRONMENT=.cache/sdks UV_PYTHON_DOWNLOADS=never $(BIN)/uv sync --quiet \
		--python $(BIN)/python --extra all --no-default-groups --group test $(if $(LOCK),--locked)
	@$(BIN)/python -m maintenance.sdk_versions

.PHONY: faults
faults: $(INSTALLED) ## Put each fault of the past back, and require that a test finds it (FAULTS=names).
	$(BIN)/python -m maintenance.faults $(FAULTS)

.PHONY: topologies
topologies: test-pgbouncer test-replica test-galera ## Run what is promised of a pooler, a replica and a cluster.

.PHONY: test-pgbouncer
test-pgbouncer: $(INSTALLED) ## Run PostgreSQL's tests through PgBouncer in transaction mode.
	@# The database goes with the server; the pooler's connections would keep it from being dropped.
	$(BIN)/python -m benchmarks.topologies pgbouncer \
		$(BIN)/python -m pytest --reuse-db $(ON_POSTGRESQL) $(PYTEST_ARGS)

.PHONY: test-replica
test-replica: $(INSTALLED) ## Read pages from a streaming replica of PostgreSQL that is two seconds behind.
	$(BIN)/python -m benchmarks.topologies replica \
		$(BIN)/python -m pytest --reuse-db tests/topologies/live $(PYTEST_ARGS)

.PHONY: test-galera
test-galera: mariadb-client ## Write to three nodes of a Galera cluster while they are killed and cut off.
	$(BIN)/python -m benchmarks.topologies.galera

.PHONY: screenshots
screenshots: $(INSTALLED) ## Take the documentation's pictures of the admin and the chat, in Chromium.
	SCREENSHOTS=docs/images TEST_DATABASE=sqlite $(BIN)/python -m pytest tests/browser/test_pages.py \
		tests/browser/test_chat.py tests/browser/test_jobs.py

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
imports: $(INSTALLED) ## Check who imports whom, and that no name stands for two things.
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter
	$(BIN)/python -m maintenance.names
	$(BIN)/python -m maintenance.message_classes

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

.PHONY: release
release: $(INSTALLED) ## Build a release twice, check what would be published, and list its materials.
	@$(SYNC) --group release
	@$(BIN)/python -m maintenance.release

.PHONY: bench
bench: | $(BIN)/uv ## Measure against other session stores and the raw drivers (BENCH_ARGS="--help").
	@# An environment of its own: what those stores ask for is no part of ours.
	@UV_PROJECT_ENVIRONMENT=$(BENCH) UV_PYTHON_DOWNLOADS=never $(BIN)/uv sync --quiet \
		--python "$(BENCH_PYTHON)" --extra all --no-default-groups --group bench --locked
	$(BENCH)/bin/python -m benchmarks $(BENCH_ARGS)

.PHONY: bench-events
bench-events: $(INSTALLED) ## Measure streams of events (BENCH_ARGS).
	$(BIN)/python -m benchmarks.events $(BENCH_ARGS)

.PHONY: bench-pages
bench-pages: $(INSTALLED) ## Measure pages of the API and the admin (BENCH_ARGS).
	$(BIN)/python -m benchmarks.pages $(BENCH_ARGS)

.PHONY: bench-without
bench-without: $(INSTALLED) ## Measure what each hand-written mechanism gains (BENCH_ARGS=a part of its name).
	$(BIN)/python -m benchmarks.without $(BENCH_ARGS)

.PHONY: load
load: $(INSTALLED) ## Serve 200 agents at once (MINUTES, AGENTS, SERVER=asgi|wsgi, DATABASE, LOAD=options).
	@$(SYNC) --group load
	$(BIN)/python -m benchmarks.load --minutes $(or $(MINUTES),10) --agents $(or $(AGENTS),200) \
		--server $(or $(SERVER),asgi) --database $(or $(DATABASE),postgresql) $(LOAD)

.PHONY: chaos
chaos: $(INSTALLED) $(if $(filter-out sqlite postgresql,$(or $(DATABASE),all)),mariadb-client) ## Break databases under agents, check what is left (DATABASE, MINUTES, SEED).
	$(BIN)/python -m benchmarks.chaos --database $(or $(DATABASE),all) \
		--minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

.PHONY: random
random: $(INSTALLED) ## Do random operations, count again after each, and check (STEPS, SEED, EVERY, DATABASE, TEST_CODEC).
	RANDOM_STEPS=$(or $(STEPS),1000) RANDOM_SEED=$(or $(SEED),7) RANDOM_EVERY=$(or $(EVERY),50) \
		TEST_DATABASE=$(or $(DATABASE),sqlite) $(BIN)/python -m pytest -s $(PYTEST_ARGS) tests/integrity/test_random.py

.PHONY: contexts
contexts: $(INSTALLED) $(if $(filter-out sqlite postgresql,$(or $(DATABASE),all)),mariadb-client) ## Talk to agents in each server and queue, also reloaded and killed (DATABASE, ONLY).
	@$(SYNC) --group contexts
	$(BIN)/python -m benchmarks.contexts --database $(or $(DATABASE),all) $(if $(ONLY),--only "$(ONLY)")

.PHONY: scale
scale: $(INSTALLED) ## Measure ten million messages beside ten thousand, on PostgreSQL (SCALE_ARGS).
	$(BIN)/python -m benchmarks.scale.growth $(SCALE_ARGS)

.PHONY: clean
clean: ## Remove what was made here, .venv included.
	rm -rf $(VENV) .cache .hypothesis dist docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
