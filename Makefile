# Every target does its own set-up: a .venv with the hash-pinned packages of requirements/*.lock.
# Needs Python >= 3.11, git and make; nothing else.

SHELL := /bin/sh
.DEFAULT_GOAL := help
export UV_PYTHON_DOWNLOADS := never
# Without bytecode on the disk every process compiles some 1,700 modules anew.
unexport PYTHONDONTWRITEBYTECODE

NEWEST_FIRST := python3.13 python3.12 python3.11
IS_SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 $(NEWEST_FIRST); do $$p -c '$(IS_SUITABLE)' >/dev/null 2>&1 && { echo $$p; break; }; done)

UV := .venv/bin/uv
INSTALL := $(UV) pip install --quiet --python .venv/bin/python --require-hashes --build-constraint requirements/build.lock

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# By content: a checkout touches files that it does not change, and only another lock is worth a new .venv.
.venv/bin/uv: $(shell cmp -s requirements/bootstrap.lock .venv/bootstrap.lock || echo requirements/bootstrap.lock)
	@test -n "$(PYTHON)" || { echo "No Python 3.11-3.13 with venv found. Install one (Debian: apt install python3-venv), or say which: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	@cp requirements/bootstrap.lock .venv/
	@touch $@

# Data for reading text on pictures; quick when it is there, and never a reason to fail.
.PHONY: tessdata
tessdata: .venv/bin/uv
	@scripts/tessdata

.venv/.run: .venv/bin/uv requirements/run.lock requirements/build.lock pyproject.toml | tessdata
	@$(INSTALL) -r requirements/run.lock
	@$(UV) pip install --quiet --python .venv/bin/python --build-constraint requirements/build.lock --no-deps --editable .
	@touch $@

.venv/.dev: .venv/.run requirements/dev.lock
	@$(INSTALL) -r requirements/dev.lock
	@touch $@

.venv/.docs: .venv/bin/uv requirements/docs.lock
	@$(INSTALL) -r requirements/docs.lock
	@touch $@

.PHONY: run
run: .venv/.run ## Start everything on this machine and print the address (Ctrl-C stops it)
	@exec .venv/bin/tga up

.PHONY: setup
setup: .venv/.dev ## Only the set-up: .venv with all packages and the git hooks' tools

.PHONY: lint
lint: .venv/.dev ## ruff and mypy --strict
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

.PHONY: format
format: .venv/.dev ## Let ruff mend what it can
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

# A browser for the tests of the pages; quick when there is one, and never a reason to fail.
.PHONY: chromium
chromium: .venv/.dev
	@scripts/chromium

# Prometheus and promtool for the tests of rules and dashboards; the same.
.PHONY: prometheus
prometheus: .venv/.dev
	@scripts/prometheus

.PHONY: test
test: .venv/.dev chromium prometheus ## All tests but the long chaos runs (ARGS="-k name" narrows)
	@.venv/bin/pytest $(ARGS)

.PHONY: fuzz
fuzz: .venv/.dev ## Tests of properties, with new random examples and more of them
	@HYPOTHESIS_PROFILE=new .venv/bin/pytest -m hypothesis $(ARGS)

.PHONY: unit
unit: .venv/.dev ## Only the unit tests: no engine, no network
	@.venv/bin/pytest -q tests/unit $(ARGS)

.PHONY: check
check: .venv/.dev ## The inner loop: linters, types and unit tests, side by side
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint unit

.PHONY: e2e
e2e: .venv/.dev ## Only the end-to-end tests
	@.venv/bin/pytest -m e2e $(ARGS)

.PHONY: chaos
chaos: .venv/.dev ## Kills and faults at random, compared with the truth (5-12 min; CHAOS_SEED=n repeats a run)
	@.venv/bin/pytest -m chaos -n 0 -s -q tests/chaos $(ARGS)

# A clock that can be set for the faults of clocks; quick when it is there, and never a reason to fail.
.PHONY: faketime
faketime: .venv/.dev
	@scripts/faketime

.PHONY: faults
faults: .venv/.dev faketime ## Each fault put into a running system: how soon noticed, recovered, what was lost (ARGS="-k N1")
	@.venv/bin/python -m faults $(ARGS)

.PHONY: bench
bench: .venv/.dev ## All benchmarks, or one: make bench NAME=simulator
	@.venv/bin/python -m bench $(NAME)
	@scripts/docs

.PHONY: docs
docs: .venv/.docs ## Build the site of the documentation into site/; a broken link fails
	@.venv/bin/zensical build --clean --strict

.PHONY: docs-serve
docs-serve: .venv/.docs ## Show that site on http://127.0.0.1:8020, and what you change in it at once
	@exec .venv/bin/zensical serve --dev-addr 127.0.0.1:8020

.PHONY: load
load: .venv/.dev ## 1,000 channels, 100 posts/s for 10 minutes, local models off and on (half an hour; ARGS="--rate 50")
	@.venv/bin/python -m bench.load $(ARGS)

.PHONY: soak
soak: .venv/.dev ## An hour of posts, edits and deletions with the local models; memory and lag over time
	@.venv/bin/python -m bench.load --soak $(ARGS)

.PHONY: audit
audit: .venv/.dev ## Look up known vulnerabilities of the pinned packages at osv.dev (fails if it cannot be asked)
	@.venv/bin/python scripts/audit.py

.PHONY: lock
lock: .venv/bin/uv ## Renew requirements/*.lock from pyproject.toml (pins and hashes only)
	@scripts/lock

.PHONY: clean
clean: ## Remove the .venv and caches (never ./data)
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .cache build dist site
