# From Tensors to Tokens. `make` alone says what there is.
PYTHON ?= python3
VENV   ?= .venv
COURSE ?= .
PORT   ?= 8000
CLASS  ?= views
# Of what `make release` writes: open or graded, and the address of the graded one's marking service.
EDITION := open
MARKING_SERVICE :=
JOBS   ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# Tests wait for a third of their time, for browsers, deadlines and other processes: half as many again keep the cores busy.
WORKERS ?= $(shell expr $(JOBS) \* 3 / 2)
BIN    := $(VENV)/bin
ENV    := $(VENV)/.made
TOOLS  := $(VENV)/.made-for-tests
MORE   := $(VENV)/.made-for-audits
SERVER := $(VENV)/.made-for-server
LOAD   := .venv-load
NEWEST := .venv-newest
TIMED  := $(BIN)/python tools/phase.py
SITE   := _build/html/index.html
DOWNLOADS := _build/exercises/.made
CACHE  := _build/.jupyter_cache/.made-with

code      := $(shell find gpulab -name '*.py' -o -name '*.js' -o -name '*.css' | grep -v __pycache__)
pipeline  := $(wildcard autograder/authoring/*.py) autograder/nbgrader/config.py
marker    := $(shell find autograder -name '*.py' -o -path 'autograder/selfcheck/*' -o -name '*.css' | grep -v __pycache__)
exercises := $(shell find exercises -name '*.py' -o -name hints.yml | grep -v __pycache__)
downloaded := $(exercises) $(pipeline) $(marker) $(code) pyproject.toml _config.yml
pages     := _config.yml _toc.yml $(shell find chapters -type f | grep -v __pycache__)

.PHONY: executed test-env help demo evidence opinfo recordings test audit newest timed book release serve serve-model load-model lab source format env clean clean-all
help:
	@echo "make demo    build the site, grade a sample class, print the scores (CLASS=all: of every chapter the whole gallery)"
	@echo "make test    run the tests (CHAPTER=views: of one chapter; ONLY=grader: of a part; JOBS=1: one by one)"
	@echo "make audit   try all that is too slow for every change; goes on where it stopped (CHAPTER=, ONLY=; AUDIT=--left: says what is left)"
	@echo "make newest  try the rooms of PyTorch's internals with the newest PyTorch that pyproject.toml allows; make audit does, too"
	@echo "make evidence  measure this machine's GPU and compare it with the model (EVIDENCE=--runtime=virtual: a dry run)"
	@echo "make opinfo  compare every operation of PyTorch's own table on the virtual card with the host"
	@echo "make book    build the site into _build/html"
	@echo "make release write the site, the notebooks and the wheels to host (EDITION=graded: without solutions and hidden tests; MARKING_SERVICE=https://...: with a marker that asks there)"
	@echo "make serve   show the site at http://localhost:$(PORT)"
	@echo "make lab     JupyterLab with nbgrader on the course (COURSE=_build/demo: the sample class)"
	@echo "make source  write nbgrader's source notebooks from exercises/"
	@echo "make format  write Python as ruff formats it, and mend what it can of its rules"
	@echo "make clean   remove what was built (never a course's submissions or grades)"

demo: book
	@$(BIN)/python -m autograder demo --whole=$(CLASS) --jobs=$(JOBS)

test: timed $(if $(CHAPTER)$(ONLY),$(MORE),$(TOOLS)) book
	@$(BIN)/python -m tests $(if $(filter 1,$(JOBS)),,--numprocesses=$(WORKERS) --dist=loadscope --no-loadscope-reorder) $(if $(CHAPTER),--chapter=$(CHAPTER)) $(if $(ONLY),--room=$(ONLY)) $(TESTS)
# The first thing that `make test` does: what was built before is not of this run.
timed:
	@rm -f _build/phases.json

audit: $(MORE) $(if $(CHAPTER)$(ONLY),,$(NEWEST)/.made) book
	@$(BIN)/python -m tests.audit --jobs $(JOBS) $(if $(CHAPTER),--chapter $(CHAPTER)) $(if $(ONLY),--room $(ONLY)) $(AUDIT)

newest: $(MORE) $(NEWEST)/.made
	@$(BIN)/python -m tests.audit --jobs $(JOBS) --newest $(AUDIT)

opinfo: $(MORE)
	$(BIN)/python -m tests.cuda.opinfo --write

format: $(TOOLS)
	$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format .

recordings: $(ENV)
	$(BIN)/python -m gpulab.recordings

# Without an environment it takes PYTHON as it is (PyTorch, Triton, numba-cuda, pytest) and installs nothing.
evidence:
	@PYTHONPATH=. $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m evidence $(EVIDENCE)

book: $(SITE) $(DOWNLOADS)
release: book
	@$(BIN)/python tools/release.py $(EDITION) $(MARKING_SERVICE)

serve: book
	$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

serve-model: $(SERVER)
	@$(BIN)/python -m gpulab.serving.http --port $(PORT) $(if $(SCHEDULER),--scheduler "$(SCHEDULER)")

load-model: $(MORE)
	@for what in streams restart exchanges; do $(BIN)/python -m benchmarks.serve_model $$what || exit 1; done
	@test -x $(LOAD)/bin/guidellm || { $(PYTHON) -m venv $(LOAD) && $(LOAD)/bin/pip install --quiet --extra-index-url https://download.pytorch.org/whl/cpu --constraint constraints.txt torch && $(LOAD)/bin/pip install --quiet guidellm==0.8.1; }
	$(BIN)/python -m benchmarks.serve_model load --guidellm $(LOAD)/bin/guidellm

lab: $(ENV) source
	JUPYTER_PATH=$(CURDIR)/tools/lab COURSE=$(COURSE) $(BIN)/jupyter lab

source: $(ENV)
	@$(BIN)/python -m autograder source --course $(COURSE)

env: $(ENV)
test-env: $(TOOLS)
$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else "Python 3.11, 3.12 or 3.13 is needed; this is %d.%d. Try: make PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing (Debian: apt-get install python3-venv)"; exit 1; }

$(ENV): pyproject.toml constraints.txt tools/install.py | $(BIN)/python
	@$(TIMED) environment $(BIN)/python tools/install.py course
	@touch $@

# All at once where there is nothing yet: to look for packages a second time takes half a minute.
$(TOOLS): extras := course test
$(MORE): extras := course test audit
$(TOOLS) $(MORE): pyproject.toml constraints.txt tools/install.py | $(BIN)/python
	@$(TIMED) environment $(BIN)/python tools/install.py $(extras)
	@for less in $(ENV) $(TOOLS); do $(MAKE) --no-print-directory -q $$less || touch $$less; done
	@touch $@

# Anew each time: pip leaves a PyTorch that is there and in the range.
$(NEWEST)/.made: pyproject.toml constraints.txt tools/install.py | $(BIN)/python
	@$(PYTHON) -m venv --clear $(NEWEST)
	@$(NEWEST)/bin/python tools/install.py --newest course test audit
	@touch $@

$(SERVER): $(ENV)
	@$(BIN)/python tools/install.py course server
	@touch $@

# The notebooks to download are made on whatever core the pages leave.
$(SITE): $(ENV) $(CACHE) $(pages) $(downloaded)
	@$(TIMED) book $(MAKE) --no-print-directory --jobs=2 $(DOWNLOADS) executed
	@echo "-- Building the site"
	@$(TIMED) book $(BIN)/jupyter-book build --quiet --all -W -n --keep-going .
	@touch $@

executed: $(ENV) $(CACHE)
	@$(BIN)/python tools/execute.py

$(DOWNLOADS): $(downloaded) | $(ENV)
	@echo "-- Making the learners' notebooks"
	@$(BIN)/python -m autograder downloads
	@touch $@

# The notebook cache does not see the modules that chapters import: forget it when they change.
$(CACHE): $(code) constraints.txt
	@rm -rf _build/.jupyter_cache && mkdir -p $(@D) && touch $@

clean:
	rm -rf _build
clean-all: clean
	rm -rf $(VENV)
