# PYTHON=/path/to/python3 chooses the interpreter; otherwise the newest usable one is taken
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# written last, so that an interrupted setup starts again
STAMP := $(VENV)/.installed

USABLE := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))
CANDIDATES := python3.13 python3.12 python3.11 python3.10 python3

# some containers set it; every test process would then compile all modules anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo jars classes test long quick check kernels format docs bench lock

help: ## list the recipes
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with the locked packages and headgate itself

demo: $(STAMP) ## send one flood three times through a query, and plot memory and latency
	$(BIN)/headgate demo

# those of HDFS and S3 are 70 MB, for make long alone
JARS := avro broker connector jdbc $(if $(filter-out 0,$(HEADGATE_LONG_TESTS)),hdfs s3)

jars: $(STAMP) ## fetch jars for tests into a cache: a Kafka broker, databases; for make long HDFS and S3
	@$(BIN)/python tools/fetch_jars.py $(JARS)

test: $(STAMP) ## check, then run all tests, those that need no JVM first
	@$(MAKE) --no-print-directory --jobs=2 check kernels jars classes
	$(BIN)/python -m pytest -m "not spark" -n auto --dist worksteal
	HEADGATE_CLASS_SHARING=on $(BIN)/python -m pytest -m spark -n 2 --dist worksteal

long: ## the same with the tests that take many minutes, and more random cases
	HEADGATE_LONG_TESTS=1 $(MAKE) --no-print-directory test

quick: $(STAMP) ## the tests of a minute: no JVM, nothing that is marked slow
	$(BIN)/python -m pytest -m "not spark and not slow" -n auto --dist worksteal -q

check: $(STAMP) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# these tests compile the loops of the simulator; without them, every test process would compile its own
kernels: $(STAMP)
	$(BIN)/python -m pytest -q tests/simulator/test_priority_kernel.py \
	  tests/cli/test_route.py::test_a_network_is_simulated_under_a_policy

# an archive that JVMs map into memory instead of loading Spark's classes: the tests start some twenty JVMs
classes: $(STAMP)
	$(BIN)/python -m headgate.spark.application.archive

format: $(STAMP) ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP) ## build the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html; with search: $(BIN)/python -m http.server --directory site"

bench: $(STAMP) ## measure; see benchmarks/
	$(BIN)/python benchmarks/run.py

lock: $(STAMP) ## resolve the dependencies anew into requirements.lock
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.10 --upgrade \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --quiet \
	  --custom-compile-command "make lock" --output-file requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@set -e; \
	if [ -x $(BIN)/python ] && $(BIN)/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
	chosen=; \
	for candidate in $(or $(PYTHON),$(CANDIDATES)); do \
	  if "$$candidate" -c '$(USABLE)' >/dev/null 2>&1; then chosen=$$candidate; break; fi; \
	done; \
	if [ -z "$$chosen" ]; then \
	  echo "no Python 3.10 or newer with venv and ensurepip among: $(or $(PYTHON),$(CANDIDATES));" \
	    "install one (on Debian also python3-venv) or run make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$chosen" --version)"; \
	"$$chosen" -m venv --clear $(VENV)
	@echo "installing the locked packages (about 500 MB the first time)"
	@$(PIP) install --quiet --use-pep517 --require-hashes --requirement requirements.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
