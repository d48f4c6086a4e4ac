"""The suite runs in float64, and again in float32 with REGJAX_TEST_X64=0."""

import collections
import gc
import itertools
import os
from pathlib import Path

import jax
import pytest

SLOW = os.environ.get("REGJAX_TEST_SLOW", "0") == "1"
X64 = os.environ.get("REGJAX_TEST_X64", "1") == "1"
jax.config.update("jax_enable_x64", X64)
gc.set_threshold(200_000, 50, 100)  # traced programs are many objects that live: looking through them takes time
_finished = itertools.count(1)


def pytest_collection_modifyitems(config, items):
    reasons = {"x64": "a statement about float64", "once": "does not depend on the precision"}
    seen = collections.Counter()
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker) and not X64:
                item.add_marker(pytest.mark.skip(reason=reason))
        sample = item.get_closest_marker("sample")
        if sample is not None:
            place = (item.path, item.originalname)
            seen[place] += 1
            if seen[place] % (sample.args[0] if X64 else 2 * sample.args[0]) != 1:
                item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not SLOW:
            item.add_marker(pytest.mark.skip(reason="slow: make test-all"))
        if hasattr(item, "callspec") and "name" in item.callspec.params:
            # one worker for one model, so that its tests share what it has compiled
            item.add_marker(pytest.mark.xdist_group(str(item.callspec.params["name"])))


def pytest_configure(config):
    config.addinivalue_line("markers", "x64: a statement about float64, skipped in the float32 run")
    config.addinivalue_line("markers", "slow: repeats what quicker tests cover, run by `make test-all`")
    config.addinivalue_line("markers", "sample(k): every k-th case runs (float32: 2k-th), all by `make test-all`")
    config.addinivalue_line("markers", "once: does not depend on the precision, skipped in the float32 run")


def pytest_runtest_teardown(item):
    # every compiled program holds memory maps, and a process may have only so many (vm.max_map_count)
    if next(_finished) % 10 == 0 and _memory_maps() > 40_000:
        jax.clear_caches()
        gc.collect()


def _memory_maps():
    """Those of this process; many, where they cannot be counted."""
    maps = Path("/proc/self/maps")
    return maps.read_bytes().count(b"\n") if maps.exists() else 1_000_000
