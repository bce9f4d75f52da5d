# Everything lives in .venv and in the jar cache; nothing outside them is installed. Extra arguments: make test ARGS="-k window"
.DEFAULT_GOAL := help
.PHONY: help help-all setup prefetch demo lab room page lite lite-test recorded book test slow browser pictures soak chaos steady smooth sim logs matrix bench cost longwindows sync absence cold peers mutants fuzz latency cpu policy would throughput rescale lessons slides sheet heads datasets flights hashes sbom release lint clean

PY := .venv/bin/python
# the first of these that is new enough makes .venv; another: make setup PYTHON=/path/to/python3
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# what make prefetch brought is used instead of the network
PREFETCHED := $(wildcard prefetched/wheels)
# what is imported is compiled then, once; the rest, three quarters of all modules, never
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := $(PY) -m pip install --quiet --no-compile --disable-pip-version-check --no-build-isolation $(if $(PREFETCHED),--no-index --find-links $(PREFETCHED))
# for those who only work through the lessons: make setup REQUIREMENTS=requirements.txt
REQUIREMENTS := requirements-dev.txt
# the same pins with their hashes, which pip checks; a prefetched folder has wheels that were built there, of other hashes
LOCK := $(REQUIREMENTS:.txt=.lock)
WITHOUT_HASHES := $(if $(PREFETCHED),-e 's/ \\$$//' -e '/--hash=/d')
# packages are installed in three groups at the same time: those that the engine needs, so that its kernels are compiled meanwhile; Spark,
# by far the largest, of whose source pip builds a wheel; all others
ENGINE := /^(llvmlite|markdown-it-py|mdurl|numba|numpy|packaging|pandas|prometheus-client|psutil|py4j|pyarrow|pygments|python-dateutil|pytz|pyyaml|rich|tzdata)==/,/[^\\]$$/
SPARK := /^pyspark==/,/[^\\]$$/
INSTALL = @sed -E $(foreach pins,$(1),-e '$(pins)') $(WITHOUT_HASHES) $(or $(2),$(LOCK)) | $(PIP_INSTALL) --no-deps $(if $(WITHOUT_HASHES),,--require-hashes) -r /dev/stdin
# what builds wheels: the newest pip and setuptools of an index might be anything
BUILD_LOCK := requirements-build.lock
JUPYTER_SETTINGS := .venv/share/jupyter/lab/settings
NO_JUPYTEXT := {"disabledExtensions": {"jupyterlab-jupytext": true}}
NO_NEWS := {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}
READY := Ready. Next: make demo, make lab or make test
# where measurements draw; to draw those of the docs anew: make cost PICTURES=docs/pictures
PICTURES := build/pictures
TOOLS_INSTALL := build/tools/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --require-hashes
TOOLS = $(firstword $(PYTHONS)) -m venv build/tools && $(TOOLS_INSTALL) -r $(BUILD_LOCK) && $(TOOLS_INSTALL)
# npm, which fetches Pyodide: the machine's, or one in build/tools
NPM = command -v npm >/dev/null || { $(TOOLS) -r requirements-node.lock; }
COMPILE := build/tools/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header
# a language that lessons and control room are translated into: make lab LANGUAGE=ko, make room LANGUAGE=zh
FIRST_PAGE := $(firstword $(wildcard $(if $(LANGUAGE),notebooks/$(LANGUAGE)/00-start-here.ipynb) notebooks/00-start-here.ipynb notebooks))

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.* ## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "  make help-all   also what those need who change the kit: measurements, long tests, releases"

help-all: ### show all targets
	@awk -F ':.*##+ ' '/^[a-z-]+:.* ##+ / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: java ## create .venv, install the pinned packages, fetch the jars (once; run again any time)
	@$(MAKE) --silent --jobs=3 .venv/.jars .venv/.kernels .venv/.packages
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "$(READY)",:)

.PHONY: java without-java
java: .venv/.made
	@$(PY) -I lab/machine/java.py

.venv/.made:
	@for python in $(PYTHONS); do \
	    if $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	      echo "Creating .venv with $$($$python --version)"; $$python -m venv --clear .venv && touch $@; exit; \
	    fi; \
	  done; \
	  echo "Python 3.11 or newer is needed. Looked for: $(PYTHONS). python3 here: $$(python3 --version 2>&1)." >&2; \
	  echo "Install a newer one beside it, then: make setup PYTHON=/path/to/python3.13" >&2; exit 1

.venv/.pip: .venv/.made $(BUILD_LOCK)
	$(call INSTALL,/^#/d,$(BUILD_LOCK))
	@touch $@

.venv/.engine: .venv/.pip $(LOCK)
	$(call INSTALL,$(ENGINE)!d)
	@touch $@

# without compression, the wheel is built in half the time
.venv/.spark: export DIST_EXTRA_CONFIG = $(CURDIR)/.venv/.wheel.cfg
.venv/.spark: .venv/.pip $(LOCK)
	@printf '[bdist_wheel]\ncompression = stored\n' > "$(DIST_EXTRA_CONFIG)"
	$(call INSTALL,$(SPARK)!d)
	@touch $@

.venv/.packages: .venv/.pip $(LOCK) pyproject.toml
	@echo "Installing the pinned packages (a minute or two the first time)"
	$(call INSTALL,$(ENGINE)d $(SPARK)d)
	@$(PIP_INSTALL) --no-deps --editable .
	@mkdir -p $(JUPYTER_SETTINGS) && echo '$(NO_NEWS)' > $(JUPYTER_SETTINGS)/overrides.json
	@mkdir -p .venv/etc/jupyter/labconfig && echo '$(NO_JUPYTEXT)' > .venv/etc/jupyter/labconfig/page_config.json
	@touch $@

.venv/.kernels: .venv/.engine
	@echo "Compiling the engine's kernels"
	@$(PY) -c 'from lab.engine.loop.inprocess import compile_kernels; compile_kernels()'
	@touch $@

# everything that works without Java
without-java: .venv/.kernels .venv/.spark .venv/.packages

# made while the kernels are compiled, and so without them
.venv/.jars: .venv/.engine .venv/.spark
	@$(PY) -m lab.machine.jars
	@echo "Laying out Spark's classes for a fast start"
	@NUMBA_DISABLE_JIT=1 $(PY) -m lab.running.faststart || true
	@touch $@

prefetch: setup ## put wheels and jars into prefetched/, for a room without network: make setup uses them
	@$(PY) -m lab.machine.prefetch prefetched

demo: setup ## play a payment stream with planted fraud through the engine and show the alerts
	@.venv/bin/lab demo $(ARGS)

lab: setup ## open the lessons in JupyterLab (this machine only)
	@.venv/bin/jupyter lab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir="$(CURDIR)" \
	  --LabApp.default_url=/lab/tree/$(FIRST_PAGE) $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

room: without-java ## open the control room, rules and alerts as one web page (this machine only; Java only for Spark)
	@JUPYTER_PATH="$(CURDIR)/notebooks" .venv/bin/voila notebooks/$(if $(LANGUAGE),$(LANGUAGE)/)control-room.ipynb --template=offline \
	  --Voila.ip=127.0.0.1 --token $(ARGS)

page: without-java ## make the control room as one HTML file that needs no Python: build/control-room.html
	@$(NPM)
	@$(PY) -m lab.page.build build

build/book-env/.ready: book/requirements.lock $(BUILD_LOCK)
	@echo "Installing the tools that make the book into build/book-env"
	@$(PY) -m venv --clear build/book-env
	@for lock in $^; do build/book-env/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --require-hashes -r $$lock || exit 1; done
	@touch $@

book: setup build/book-env/.ready ## make the book: all lessons with their outputs, docs and API as one site (20 minutes; ARGS=--no-execute: as last run)
	@$(PY) -m book.make $(ARGS)

lite: without-java ## make the lessons as a static site that runs in the browser, offline: build/lite (needs npm)
	@$(TOOLS) -r requirements-lite.lock
	@$(PY) -m lab.teach.lite build/lite

lite-test: lite ### run the lessons of build/lite to the end in Chromium, which reaches no other host (5 minutes)
	@LAB_LITE=build/lite $(PY) -m pytest -m browser tests/browser/test_lite.py $(ARGS)

recorded: setup ### run the lessons and record what cells give that a browser cannot run: lab/teach/recorded.json (ARGS=03: one lesson)
	@$(PY) -m lab.teach.recording $(ARGS)

test: setup ## run the tests
	@$(PY) -m pytest -n 3 --dist worksteal $(ARGS)

slow: setup ## the tests that take long each: lessons 1 to 6, 8 and 9, more random logs, brokers that go away, kills (18 minutes on a slow machine)
	@$(PY) -m pytest -n 3 --dist worksteal -m "slow and not soak and not browser" $(ARGS)

browser: setup ## the lessons and the control room in a real browser (Chromium; 5 minutes)
	@$(NPM)
	@$(PY) -m pytest -m browser tests/browser $(ARGS)

pictures: setup ### make the pictures of docs/pictures anew, with the browser
	@$(NPM)
	@mkdir -p docs/pictures && LAB_PICTURES=docs/pictures $(PY) -m pytest -m browser tests/browser $(ARGS)

soak: setup ### the long tests: all lessons in three languages in a browser, kills of engine and broker while logs grow, a long log rescaled, all random examples, and the window loop with every array index checked
	@$(PY) -m pytest -m soak -o faulthandler_timeout=0 -s --ignore=tests/browser/test_smooth.py $(ARGS)
	@LAB_ALL_EXAMPLES=1 $(PY) -m pytest $$(grep -l 'tests.examples' -r tests --include='test_*.py')
	@LAB_EXAMPLES=500 NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.venv/numba-checked $(PY) -m pytest tests/engine/test_store.py tests/engine/test_blocks.py

chaos: setup ## real kills of worker, Java, parent and broker while events flow: what is lost, and for how long (ARGS="--kills 1000 --kafka")
	@$(PY) -m tools.chaos $(ARGS)

steady: setup ### an hour at 1,000 events/s with rules changing, then ten times that for a minute: what grows? (draws build/pictures/steady.svg; ARGS="--seconds 120 --burst 15")
	@mkdir -p $(PICTURES)
	@$(PY) -m tools.bench.steady --plot $(PICTURES)/steady.svg $(ARGS)

smooth: setup ### measure the control room in the browser while 100 alerts come each second (10 minutes; LAB_SMOOTH_MINUTES=2: less)
	@$(PY) -m pytest -m soak -o faulthandler_timeout=0 -s tests/browser/test_smooth.py $(ARGS)

sim: setup ### the engine's protocol in a simulated world: crashes, twins, wrong clocks (ARGS="--histories 100000 --processes 2", "--loop" for histories that run the engine's loop, "--power" for power failures, or "--mutants")
	@$(PY) -m tests.sim $(ARGS)

logs: setup ## random logs through the whole engine, against the reference (ARGS="--logs 200000 --processes 2"; on Spark: ARGS="--spark --logs 2000")
	@$(PY) -m tests.engine.whole $(ARGS)

matrix: setup ### random verdicts of all who can be asked, against the reference (ARGS="--logs 10000 --processes 2")
	@$(PY) -m tests.desk.matrix $(ARGS)

bench: setup ## measure how fast finished files are evaluated, and what the state takes (ARGS="--against COMMIT": also as it was then)
	@$(PY) -m tools.bench $(ARGS)

cost: setup ### measure what an event costs the windows, and draw it: build/pictures/cost.svg (3 minutes)
	@mkdir -p $(PICTURES)
	@$(PY) -m tools.bench.cost --plot $(PICTURES)/cost.svg $(ARGS)

longwindows: setup ### fill 30-day windows of three routes with ten million payments, in memory and on a disk: events/s, bytes an event and route, restarts, delays at 500/s (7 minutes; ARGS="--events N")
	@$(PY) -m tools.bench.longwindows $(ARGS)

sync: setup ### measure what it costs that saves wait for the disk (1 minute; ARGS="--folder FOLDER" for another disk)
	@$(PY) -m tools.bench.sync $(ARGS)

absence: setup ### measure what a rule that says absence costs with a million open groups (2 minutes)
	@$(PY) -m tools.bench.absence $(ARGS)

cold: setup ### say where the time of a cold replay of a million events goes
	@$(PY) -m tools.bench.cold $(ARGS)

peers: setup ### other engines on the same payments and rules: speed, and the alerts they find (10 minutes; installs PyFlink beside; draws build/pictures/peers.svg)
	@mkdir -p $(PICTURES)
	@$(PY) -m tools.peers --plot $(PICTURES)/peers.svg $(ARGS)

fuzz: setup ## feed hostile input to everything that reads some (ARGS="--inputs 1000000", "--slowest", or "--hostile": known ones, measured)
	@$(PY) -m tools.fuzz $(ARGS)

mutants: setup ### faults planted in windows, routes, state files and rules, for the tests to find (ARGS="--share 0.2 lab.engine.compiled.window")
	@$(PY) -m tools.mutants $(ARGS)

latency: setup ## measure the live engine on Kafka: append of an event to append of its alert, 500 and 1,000 events/s, and on a busy machine (30 minutes)
	@$(PY) -m tools.bench.live latency $(ARGS)

cpu: setup ### measure the CPU that a live engine takes, at rest and at 500 events/s (8 minutes; ARGS="--against COMMIT": also as it was then)
	@$(PY) -m tools.bench.cpu $(ARGS)

policy: setup ### measure a policy's way: commit in PostgreSQL to rule in force, abusive event to refusal, by stage (5 minutes)
	@$(PY) -m tools.bench.policy $(ARGS)

would: setup ### measure questions about events that have not happened, beside an engine at 500 events/s, and what they cost its alerts (5 minutes)
	@$(PY) -m tools.bench.would $(ARGS)

throughput: setup ### measure the highest rate from Kafka at which the engine does not fall behind, and how fast a backlog is read (6 minutes)
	@$(PY) -m tools.bench.live throughput $(ARGS)

rescale: setup ### measure a change of parallelism by size of the state (ARGS="--mb 10 100 1000 --restore": minutes, 5 GB)
	@$(PY) -m tools.bench.rescale $(ARGS)

lessons: setup ### make the notebooks out of their sources, notebooks/source/*.md
	@$(PY) -m lab.teach.lessons

slides: setup ## make slides to speak to out of the lessons: slides/*.html, slides/ko/*.html, slides/zh/*.html
	@$(PY) -m lab.teach.slides slides

sheet: setup ## make the printed page for each table: slides/sheet.html and that of each language, and .pdf with Chromium
	@$(PY) -m lab.teach.sheet slides

heads: setup ### measure the memory of a class on one server: ten kernels work through lesson 3 at once (5 minutes)
	@$(PY) -m tools.bench.heads $(ARGS)

datasets: setup ### make the committed payments and logins data again: the same bytes every time
	@$(PY) datasets/make.py payments
	@$(PY) datasets/make.py logins

flights: setup ### make all twelve months of flight events (January is committed)
	@$(PY) datasets/make.py flights --months 1-12

hashes: ### write all *.lock anew, after a change of a pin
	@$(TOOLS) -r requirements-tools.lock
	@for name in requirements requirements-dev requirements-build requirements-node; do \
	  $(COMPILE) --python-version 3.11 --no-deps $$name.txt --output-file $$name.lock || exit 1; done
	@$(COMPILE) --python-version 3.14 --no-deps requirements-page.txt --output-file requirements-page.lock
	@$(COMPILE) --python-version 3.11.5 --no-deps book/requirements.txt --output-file book/requirements.lock
	@for name in requirements-tools requirements-lite; do \
	  $(COMPILE) --python-version 3.11 $$name.txt --output-file $$name.lock || exit 1; done

release: sbom ### build the wheel, the source archive and the list of parts: build/release
	@rm -rf build/release build/lib
	@build/tools/bin/python -m build --no-isolation --outdir build/release . > build/release.log 2>&1 || { cat build/release.log; exit 1; }
	@cp build/sbom.cdx.json build/release && ls build/release

sbom: ### write the list of Python parts, CycloneDX: build/sbom.cdx.json (jars: lab/machine/jars.txt)
	@$(TOOLS) -r requirements-tools.lock
	@build/tools/bin/python -W ignore::UserWarning -m cyclonedx_py requirements requirements.lock --pyproject pyproject.toml --output-file build/sbom.cdx.json

lint: .venv/.packages .venv/.engine ## check style with ruff, types with mypy
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m mypy

clean: ## remove caches and build leftovers (keeps .venv and jars: delete .venv by hand to start afresh)
	@rm -rf build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis artifacts derby.log metastore_db spark-warehouse
	@find . \( -name .venv -o -name .git \) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -print | xargs rm -rf
