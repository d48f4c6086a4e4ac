# make demo: install into .venv and run the main job.   make test: the same, then everything that CI checks.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export OPENBLAS_NUM_THREADS := 1
export JAX_PLATFORMS ?= cpu
# The tests compile thousands of small programs and run each for a moment: without LLVM's optimizations and fusion
# emitters they compile in a third of the time. Demo and benches run what users run.
QUICK := XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false \
	--xla_cpu_parallel_codegen_split_count=1"

.PHONY: demo test test-all lint types test64 test32 doctest bench-tiny bench peers clean

demo: $(READY)
	$(BIN)/python -m regjax demo

test: lint types test64 test32 doctest bench-tiny

test-all:
	REGJAX_TEST_SLOW=1 $(MAKE) test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

test64: $(READY)
	$(QUICK) REGJAX_TEST_X64=1 $(BIN)/pytest -n 2 --dist loadgroup -q --durations 12

test32: $(READY)
	$(QUICK) REGJAX_TEST_X64=0 $(BIN)/pytest -n 2 --dist loadgroup -q --durations 12

doctest: $(READY)
	$(QUICK) $(BIN)/pytest -n 2 -q --doctest-modules regjax

bench-tiny: $(READY)
	printf '%s\n' bench/*.py | xargs -P 2 -I SCRIPT env $(QUICK) $(BIN)/python SCRIPT --tiny

bench: $(READY)
	for script in bench/*.py; do $(BIN)/python $$script || exit 1; done

peers: $(READY)
	$(BIN)/python bench/support/peers.py

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(READY)

clean:
	rm -rf .venv demo bench/results bench/.peers .pytest_cache .ruff_cache
