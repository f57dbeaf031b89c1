# `make demo` and `make test` install what they need by themselves, into .venv: the demo the package, the tests its tools, too. PYTHON=python3.12 chooses another interpreter (3.11 or later).
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEV := .venv/.dev
SHELL := bash
.SHELLFLAGS := -o pipefail -c
LARGE := /Downloading|Using cached/ && $$NF == "MB)" && substr($$(NF-1), 2) + 0 > 10

.PHONY: demo paper results test lint audit wheel-check oldest newest reference docs links
.DELETE_ON_ERROR:

demo: $(READY)  ## does ELMo help NER? Nine small runs on the sample corpus, side by side; given again it goes on where it stopped
	@echo 'Does ELMo help NER, and is a learned mix of its layers better than the top one alone?'
	@echo 'Nine runs on a small invented corpus, three seeds of each; about two minutes on two cores.'
	$(BIN)/python run.py sweep=demo outputs_dir=outputs/demo resume=true
	$(BIN)/python run.py job=report runs=outputs/demo columns=elmo.mix baseline=none split=test output=outputs/demo/report.html
	@echo 'none: no ELMo. top: its top layer. all: a learned mix of its layers. The same with plots: outputs/demo/report.html'
	@echo 'What to try next, in this environment (source .venv/bin/activate):'
	@echo '  python run.py sweep=layers seed=1,2,3 data.size=100           which layer helps?'
	@echo '  python run.py -m task=sst5 encoder=none,mini seed=1,2,3       another task'
	@echo '  python run.py task=ner data=wikigold data_dir=data --dry-run  a real corpus: is all there, and how large is it?'
	@echo '  python run.py --help                                          everything else'

paper: $(READY)  ## the paper's tables on the sample corpus, three seeds, tested, on one page; given again it goes on where it stopped
	for table in 1 2 3; do \
	  $(BIN)/python run.py sweep=table$$table data=sample encoder=mini seed=1,2,3 outputs_dir=outputs/paper resume=true hydra.launcher.n_jobs=2 || exit 1; done
	$(BIN)/python run.py job=paper runs=outputs/paper output=outputs/paper/report.html

results: $(READY)  ## the runs of RESULTS.md (days on two cores) and its tables: make results GLOVE=FILE DATA=DIR; given again it goes on
	$(BIN)/python results/hold_out.py $(DATA)
	PYTHON=$(BIN)/python sh results/runs.sh all vocab.vectors=$(GLOVE) data_dir=$(DATA) hydra.launcher.n_jobs=2
	$(BIN)/python run.py job=archive runs=outputs/results output=results/runs.tar.xz
	$(BIN)/python results/refresh.py word_vectors=$(GLOVE)

test: $(DEV)  ## all tests, a process a core
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(DEV)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

reference: $(DEV)  ## the settings, options, jobs and functions in docs/, written from comments and docstrings
	$(BIN)/python docs/reference.py

docs: $(DEV)  ## README.md, docs/ and the other pages as a site, in build/docs, with the page of RESULTS.md; a link within it that leads nowhere is an error
	$(BIN)/python docs/reference.py --check
	$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees -c docs . build/docs
	$(BIN)/python results/refresh.py --check --output=build/docs/results.html

links: $(DEV)  ## the addresses elsewhere that the pages name: do they still answer?
	$(BIN)/sphinx-build -q -b linkcheck -d build/doctrees -c docs . build/links

audit: $(DEV)  ## known holes in what is installed; skipped where there is no network for it
	$(BIN)/python .ci/audit.py

wheel-check:  ## the package as strangers get it: built, installed with all it needs in a new environment, run once
	rm -rf build/package
	$(PYTHON) -m venv build/package
	build/package/bin/pip install -q build
	build/package/bin/python -m build --outdir build/package/dist
	build/package/bin/pip install -q -c constraints.txt build/package/dist/*.whl
	cd build/package && bin/elmo-bench task=ner data.size=40 fit.max_epochs=1

oldest:  ## the fast tests with the oldest versions that pyproject.toml allows; UV_TORCH_BACKEND=cpu: without CUDA
	rm -rf build/oldest
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/pip install -q uv
	build/oldest/bin/uv pip install -q --python build/oldest --resolution lowest-direct -e '.[dev,tensorboard]'
	build/oldest/bin/python -m pytest -n auto --dist loadgroup -m "not slow"

# pip takes a candidate only of packages for which one is asked; OmegaConf's are those that Hydra's need.
newest:  ## the fast tests with the newest versions, and candidates of Hydra's next one; TORCH=torch==2.14.1: another than the newest
	rm -rf build/newest
	$(PYTHON) -m venv build/newest
	build/newest/bin/pip install -q --upgrade --upgrade-strategy eager -e '.[dev,tensorboard]' 'hydra-core>=1.4.0rc1' 'omegaconf>=2.4.0rc1' $(TORCH)
	build/newest/bin/pip list
	build/newest/bin/python -m pytest -n auto --dist loadgroup -m "not slow"

INSTALL = $(BIN)/python -m pip install --progress-bar off -c constraints.txt -e $(1) | awk '$(LARGE) {print "  " $$(NF-2), $$(NF-1), $$NF; fflush()}'

$(READY): pyproject.toml constraints.txt setup.py elmo_bench/encoders/bilm/native.c
	$(PYTHON) -m venv .venv
	@echo 'Installing into .venv, which takes some minutes. Its large packages, as they come:'
	@$(call INSTALL,.)
	touch $@

$(DEV): $(READY)
	@echo 'The tools for working on elmo-bench:'
	@$(call INSTALL,'.[dev]')
	touch $@
