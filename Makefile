# Hostler: every task of the project. `make` lists them; each one sets up what it needs.

PYTHON ?= python3
UV     ?= $(shell command -v uv 2>/dev/null)
SHELL  := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Tests wait for processes, databases and agents about half of their time: two for each core keep the cores busy.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

# Keep the byte code, also if the environment says not to: the tests start a thousand processes and four workers, and
# each would compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
comma := ,
BIN  := $(VENV)/bin
# Two stamps: the pinned packages, and the project installed in place on top of them.
PACKAGES := $(VENV)/.packages
READY    := $(VENV)/.ready

# $(call step,what,command): one line a step; the command's output only when it fails.
define step
@printf '%-34s' '$(1)'; if output=$$($(2) 2>&1); then echo ok; else echo FAILED; printf '%s\n' "$$output"; exit 1; fi
endef

# An environment does not survive a move of its folder: rebuild it then.
ifneq ($(shell cat $(PACKAGES) 2>/dev/null),$(CURDIR))
.PHONY: $(PACKAGES)
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: $(READY) ## set up .venv with the pinned packages and the project itself
	@:

$(PACKAGES): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: Hostler needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo 'not there')"; \
	  echo "hint: name another one, for example: make deps PYTHON=python3.12"; exit 2; }
ifneq ($(UV),)
	$(call step,environment,$(UV) venv --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV))
	$(call step,pinned packages,$(UV) pip install --python $(BIN)/python --require-hashes -r requirements/dev.txt)
else
	$(call step,environment,$(PYTHON) -m venv --clear $(VENV))
	$(call step,pinned packages,$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements/dev.txt)
endif
	@printf '%s\n' '$(CURDIR)' > $@

$(READY): $(PACKAGES) pyproject.toml src/hostler/_version.py
ifneq ($(UV),)
	$(call step,hostler itself,$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation -e .)
else
	$(call step,hostler itself,$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .)
endif
	@touch $@

.PHONY: demo
demo: deps ## place a small fleet, explain a refusal, run a control plane, compare policies
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash demo/run

.PHONY: hooks
hooks: ## have git check the messages of your commits in this clone
	@git config core.hooksPath tools/git-hooks

.PHONY: check
check: deps ## lint, format, types, architecture, plain words, generated references
	$(call step,ruff check,$(BIN)/ruff check --quiet --output-format concise .)
	$(call step,ruff format,$(BIN)/ruff format --check .)
	$(call step,mypy,$(BIN)/mypy $(wildcard src tests bench tools))
	$(call step,architecture,$(BIN)/lint-imports)
	$(call step,engine state,$(BIN)/python -m tools.engine_state)
	$(call step,plain words,$(BIN)/python -m tools.plain_words)
	$(call step,generated references,$(BIN)/python -m tools.references --check)

.PHONY: kube-binaries
kube-binaries: deps ## find or build the programs of a Kubernetes control plane; minutes, once
	@$(BIN)/hostler kube binaries > /dev/null

.PHONY: kernels
kernels: deps ## compile the engine's kernels; a minute, once
	$(call step,compiled kernels,$(BIN)/python -m tools.kernels)

.PHONY: packages
packages: deps ## install the Debian packages that tests of real parts need, or say what to type
	@tools/packages
# libvirt's bindings are built here, where its headers are.
	@if pkg-config --exists libvirt 2>/dev/null && ! $(BIN)/python -c 'import libvirt' 2>/dev/null; then \
	  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --upgrade >/dev/null; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/libvirt.txt \
	    || echo "libvirt-python could not be built: tests of the libvirt driver are left out"; fi

.PHONY: test
test: check kernels kube-binaries packages ## check, then all tests but the long ones
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=30 $(ARGS)

.PHONY: test-long
# The random tests of `make test` are among them: here they try all their examples, and new ones.
test-long: deps kernels kube-binaries packages ## the long tests
	@HOSTLER_RANDOM_TESTS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder -m 'long or hypothesis' $(ARGS)

.PHONY: bench
bench: deps ## measure the engine; prints a table and writes JSON
	@$(BIN)/python -m bench engine $(ARGS)

.PHONY: docs
docs: deps ## rewrite the generated references under docs/reference
	@$(BIN)/python -m tools.references
	@$(BIN)/python -m tools.openapi

.PHONY: pages
pages: deps kernels ## refresh the output that README and the guides show, by their tests
	@HOSTLER_REFRESH_PAGES=1 $(BIN)/python -m pytest -q -m shown_output $(ARGS)
	@git diff --stat -- README.md docs

# Hashes must be those of the public registry, whatever this machine is set up to use beside it.
COMPILE = env -u UV_FIND_LINKS -u UV_INDEX -u UV_EXTRA_INDEX_URL $(or $(UV),build/lock/bin/uv) --no-config pip compile --quiet --upgrade \
  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'

.PHONY: lock
lock: ## pin the newest versions that pyproject.toml allows in requirements/*.txt
ifeq ($(UV),)
	$(call step,uv in a folder of its own,$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --disable-pip-version-check uv)
endif
	$(call step,requirements/runtime.txt,$(COMPILE) pyproject.toml -o requirements/runtime.txt)
	$(call step,requirements/dev.txt,$(COMPILE) pyproject.toml -c requirements/runtime.txt --extra all --group dev -o requirements/dev.txt)
# Built from source, against headers that not every machine has.
	$(call step,requirements/libvirt.txt,$(COMPILE) - -c requirements/dev.txt -o requirements/libvirt.txt <<< 'libvirt-python>=9$(comma)<13')
# For the image: what runs in it is what was tested, and its wheel is built by a pinned backend.
	$(call step,requirements/kube.txt,$(COMPILE) pyproject.toml -c requirements/dev.txt --extra kube -o requirements/kube.txt)
# For hosts: a control plane with either database, and an agent, each as it was tested.
	$(call step,requirements/server.txt,$(COMPILE) pyproject.toml -c requirements/dev.txt --extra server --extra postgres -o requirements/server.txt)
	$(call step,requirements/agent.txt,$(COMPILE) pyproject.toml -c requirements/dev.txt --extra agent -o requirements/agent.txt)
	$(call step,requirements/build.txt,$(COMPILE) - -c requirements/dev.txt -o requirements/build.txt <<< 'hatchling>=1.27')
	$(call step,no address of a registry in them,! grep -n '://' requirements/*.txt)

.PHONY: clean
clean: ## remove the environment, builds and caches
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests bench tools demo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
