# make lab        set up once, open lesson 1, later your progress  (make lab ARGS="--no-browser --port=9999")
# make progress   which exercises are right, and what comes next (make progress ARGS=submitted; ARGS=--help)
# make test       set up once, run the tests and the notebooks    (make test ARGS=notebooks/solutions/02_statistics.ipynb;
#                 as on another processor: make test ARGS="--other-processor notebooks/solutions")
# make notebooks  build what changed in lessons_src              (make notebooks ARGS=02; ARGS=--help)
# make check      lint, staleness, unit tests    (make check LESSON=06, of one lesson)
# make lesson     write a new lesson that passes, to be rewritten (make lesson NEW=17_name TITLE="A title")
# make runs       record anew what is stale of data/runs, the numbers that texts name       (make runs ARGS=rnn_sweep;
#                 with other seeds, beside the recorded ones: make runs ARGS="rnn_sweep --seeds 500-501")
# make bench      time lesson 13's fused kernel beside PyTorch's, on a quiet machine (data/bench.csv)
#
# For instructors (teaching/README.md), in an environment of its own:
# make test-teaching   run the tests of everything in teaching/                            (make test-teaching ARGS=teaching/tests/test_grading.py)
# make site            the course as a web site, build/site (teaching/site)                (make site REPOSITORY=owner/name: links to it, Binder, Colab)
# make slides          a deck a lesson, build/slides (teaching/slides)                     (make slides ARGS="--pdf 06"; ARGS=--help)
# make grade           points and a page of feedback for each learner (teaching/grading)     (make grade LESSON=06 IN=submitted OUT=grades.csv)
# make plan            the plan of each session and of four courses, build/plan (teaching/plan)  (make plan ARGS=--pdf: run sheets to print)
# make class           a class on this machine, as root (teaching/classroom)                (make class ARGS="--learners names.txt"; ARGS=--help)
#
# make clean      remove all that was made; work/ (the learner's own) stays

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/ready
ARGS ?=

WORKERS := -n auto --dist loadfile

TEACHING := .venv-teaching
TEACH := PYTHONPATH=lessons_src $(TEACHING)/bin/python

PACKAGES := teaching/node_modules

CLASS := .venv-class


.PHONY: lab progress test notebooks lesson check runs bench clean test-teaching site slides class grade plan

# exec: what stops make stops the server as well.
lab: $(READY)
	@exec "$(RUN)" lessons_src/lab.py $(ARGS)

progress: $(READY)
	@"$(RUN)" -m lessonkit.progress $(ARGS)

# --quick: the untouched editions that take longest, runs of records and a new lesson are left out. Those who build and
# record have done them, and where CI is set, as in .ci/run, nothing is left out.
test: $(READY)
	@"$(RUN)" -m coursebuild --check
	@"$(RUN)" -m pytest -q $(WORKERS) --nbval --nbval-current-env --nbval-cell-timeout 120 $(or $(ARGS),$(if $(CI),,--quick))
	@$(if $(ARGS),,$(BROWSER))
	@$(LINT)

BROWSER = if ls $(TEACHING)/lib/*/site-packages/playwright >/dev/null 2>&1; \
	then $(TEACHING)/bin/python -m pytest -q tests/test_browser.py; \
	else echo "Browser tests: left out. They need Chromium and make $(TEACHING)/ready."; fi

notebooks: $(READY)
	@"$(RUN)" -m coursebuild $(ARGS)

# What is stale is said first, and the rest is tested all the same. A broken source ends it.
check: $(READY)
	@"$(RUN)" -m coursebuild --check $(LESSON); stale=$$?; [ $$stale -le 1 ] || exit 1; \
	[ $$stale = 0 ] || "$(RUN)" -m coursebuild --no-kernel 2>/dev/null; \
	"$(RUN)" -m pytest -q --tb=short -m "not trains" $(if $(LESSON),--lesson $(LESSON) $(OF_LESSON),$(WORKERS) $(or $(ARGS),tests)) && \
	$(LINT) && \
	if [ $$stale = 1 ]; then echo "All tests pass, and something is stale: the first lines say what." >&2; exit 1; fi

# These tests are about one lesson.
OF_LESSON := tests/test_lessons.py tests/test_checks.py tests/test_one_sitting.py tests/test_repository.py teaching/tests/test_plan.py teaching/tests/test_slides.py
LINTED = $(if $(LESSON),$(wildcard lessons_src/lessons/$(LESSON)_*),.)
FORMAT = "$(RUN)" -m ruff format
LINT = "$(RUN)" -m ruff check $(LINTED) && { $(FORMAT) --check --quiet $(LINTED) || \
	{ echo "These files are not formatted. This mends it: $(RUN) -m ruff format $(LINTED)" >&2; exit 1; }; }

lesson: $(READY)
	@"$(RUN)" -m coursebuild.new "$$NEW" "$$TITLE"
	@number="$$NEW"; "$(RUN)" -m coursebuild "$${number%%_*}"

runs: $(READY)
	@"$(RUN)" -m coursebuild.records $(ARGS)

bench: $(READY)
	@"$(RUN)" data/make_bench.py $(ARGS)

test-teaching: $(TEACHING)/ready $(if $(shell command -v npm),$(PACKAGES)/ready $(CLASS)/ready)
	@$(TEACH) -m pytest -q -rs $(WORKERS) $(or $(ARGS),teaching/tests)

site: $(TEACHING)/ready $(PACKAGES)/ready
	@REPOSITORY="$(REPOSITORY)" $(TEACH) -m teaching.site

slides: $(TEACHING)/ready $(PACKAGES)/ready
	@$(TEACH) -m teaching.slides $(ARGS)

class: $(CLASS)/ready
	@exec "$(RUN)" -m teaching.classroom $(ARGS)

grade: $(TEACHING)/ready
	@test -n "$(LESSON)" -a -n "$(IN)" -a -n "$(OUT)" || { echo "Write make grade LESSON=06 IN=submitted OUT=grades.csv" >&2; exit 1; }
	@$(TEACH) -m teaching.grading "$(LESSON)" "$(IN)" "$(OUT)" $(ARGS)

plan: $(TEACHING)/ready $(if $(findstring --pdf,$(ARGS)),$(PACKAGES)/ready)
	@$(TEACH) -m teaching.plan $(ARGS)

clean:
	rm -rf $(VENV) $(TEACHING) $(PACKAGES) $(CLASS) build .pytest_cache .ruff_cache lessons_src/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# $(call told,PYTHON): pip is told of other servers or folders, where the small build of torch may be.
told = "$(1)" -m pip config list | grep -E 'index|find-links' >/dev/null

# $(call install,PYTHON,REQUIREMENTS): uv is faster where it is installed, but does not read what pip is told.
install = { command -v uv >/dev/null && ! $(call told,$(1)) && uv pip install --quiet --python "$(1)" -r $(2); } || \
	"$(1)" -m pip install --quiet --disable-pip-version-check --no-compile -r $(2) || \
	{ echo "$(2) could not be installed, see above. Mend that and run make again." >&2; exit 1; }

# Redone only when the requirements change; a step that fails leaves no `ready`, so the next make tries again.
$(READY): requirements.txt pyproject.toml
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON) on the PATH. Install Python 3.11 to 3.14, or say where one is: make PYTHON=python3.12 lab" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v[:2] <= (3, 14) else "This course needs Python 3.11 to 3.14, but $(PYTHON) is %d.%d. Install one of them, and say which: make PYTHON=python3.12 lab" % v[:2])'
	@test -x "$(RUN)" || "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) could not make a virtual environment, see above. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Setting up the course in $(VENV) (once; a few minutes, most of it the download of torch)"
	@[ "$$(uname)" != Linux ] || echo "PyTorch for Linux brings gigabytes of CUDA unless you ask for the small build: Ctrl-C stops this, and GUIDE.md says how."
	@$(call install,$(RUN),requirements.txt)
	@"$(RUN)" -c 'import matplotlib.font_manager, torch' || { echo "The installed packages do not import, see above. Try: make clean, then again." >&2; exit 1; }
	@touch $(READY)

$(TEACHING)/ready: teaching/requirements.txt $(READY)
	@test -x "$(TEACHING)/bin/python" || "$(PYTHON)" -m venv $(TEACHING)
	@echo "Setting up what instructors need in $(TEACHING) (once)"
	@$(call install,$(TEACHING)/bin/python,teaching/requirements.txt)
	@touch $(TEACHING)/ready

$(CLASS)/ready: teaching/classroom/requirements.txt teaching/classroom/package-lock.json $(READY)
	@echo "Setting up JupyterHub in $(CLASS) (once)"
	@"$(RUN)" -m teaching.classroom.environment
	@touch $(CLASS)/ready

# What pages load in a reader's browser, copied from here into the site and the slides.
$(PACKAGES)/ready: teaching/package.json teaching/package-lock.json
	@command -v npm >/dev/null || { echo "There is no npm on the PATH, which installs MathJax and reveal.js. Install Node.js 20 or newer." >&2; exit 1; }
	@cd teaching && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@
