# make demo    tune a character and open the motion in a browser
# make test    the tests and docstring examples (not those marked slow), on all cores
# make short   the tests in which versions of Python and JAX show: kernels, physics, gradients,
#              QPs, synthesis, the command line
# make test-cuda-emulated   fused kernels for CUDA, run on the CPU (needs gcc and CUDA's cuda.h;
#              without them it says so, and tests nothing)
# make compat  everything on every Python of the machine with every JAX it can have, and once with
#              the oldest version of each dependency (hours)
# make lint    ruff, pyright, import directions
# make docs    the documentation as a site in site/, with every link checked; open site/index.html
# make bench   the benchmarks
# make clean   remove what the other targets made
#
# VENV=dir  the virtual environment to make or reuse      PYTHON=exe  the Python to make it with
# ARGS=...  more arguments, e.g. make test ARGS="tests/test_project.py -x"
# JAX=0.11  another version of JAX than constraints.txt has      PINS=file  other constraints

VENV ?= .venv
PYTHON ?=
ARGS ?=
JAX ?=
PINS ?= constraints.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
SHORT := tests/fused tests/simulation/test_backends.py tests/simulation/test_health.py \
  tests/solvers/test_qp.py tests/solvers/test_adaptive.py \
  tests/synthesis/test_synthesizer.py tests/optimize/cli/test_cli.py tests/test_project.py

# Tests and notebooks start Python many times: packages that are compiled anew at each start take
# over two seconds more for JAX alone.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test short test-cuda-emulated compat lint docs bench clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

demo: $(VENV)/.installed-viewer
	$(BIN)/jaxsim demo --out demo $(ARGS)

test: $(VENV)/.installed-dev
	$(PYTEST) $(ARGS)

short: $(VENV)/.installed-dev
	$(PYTEST) $(SHORT) $(ARGS)

test-cuda-emulated: $(VENV)/.installed-dev
	$(PYTEST) --dist load -p tests.cuda_emulation.plugin tests/cuda_emulation tests/fused/test_rows.py \
	  tests/fused/test_primitives.py tests/fused/test_fuse.py $(ARGS)

compat:
	.ci/compat

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet: that hides warnings, and passes them
	@echo "site/index.html"

bench: $(VENV)/.installed-dev
	@set -e; for script in benchmarks/[!_]*.py; do \
	  [ -e "$$script" ] || { echo "no benchmarks yet"; break; }; \
	  echo "== $$script"; $(BIN)/python "$$script" $(ARGS); \
	done

clean:
	rm -rf .venv-ci build dist demo site .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find jaxsim controllers optimize tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Three sets of packages share one environment: what the demo needs, what developers need, and what
# the site of the documentation needs besides.
$(VENV)/.installed-viewer: pyproject.toml $(PINS) $(VENV)/.made
	@echo "Installing what the demo needs (some minutes the first time)"
	@$(call install,.[viewer])
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(PINS) $(VENV)/.made
	@echo "Installing what developers need (some minutes the first time)"
	@$(call install,.[dev])
	@touch $@

$(VENV)/.installed-docs: pyproject.toml $(PINS) $(VENV)/.made
	@echo "Installing what the documentation needs (some minutes the first time)"
	@$(call install,.[dev$(comma)docs])
	@touch $@

comma := ,

# With JAX=0.11 the pins of jax and jaxlib give way, and that of flax, which asks for some JAX.
install = grep -vE '$(if $(JAX),^(jax|jaxlib|flax)==,^$$)' $(PINS) > $(VENV)/pins.txt; \
  $(PIP) install --quiet --no-compile -c $(VENV)/pins.txt -e "$(1)" \
  $(if $(JAX),"jax==$(JAX).*" "jaxlib==$(JAX).*")

# An environment whose Python runs is reused; stamps beside one that does not are void.
$(shell [ ! -e $(VENV)/.made ] || $(BIN)/python -c '' 2>/dev/null || rm -f $(VENV)/.made)

# A name on PATH may be a stub that does not run, so each candidate is tried.
$(VENV)/.made:
	@set -e; found=; \
	if ! $(BIN)/python -c '' 2>/dev/null; then \
	  for candidate in $(or $(PYTHON),python3.12 python3.11 python3 python); do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then found="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "No usable Python. jaxsim needs Python 3.11 or newer with its venv module (on Debian" >&2; \
	    echo "and Ubuntu the package python3-venv). To name one: make PYTHON=/path/to/python3 ..." >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$("$$found" --version)"; \
	  "$$found" -m venv --clear $(VENV); \
	fi; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@touch $@
