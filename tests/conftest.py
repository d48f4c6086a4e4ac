"""The suite runs in float64, and again in float32 with REGJAX_TEST_X64=0."""

import itertools
import os

import jax
import pytest

X64 = os.environ.get("REGJAX_TEST_X64", "1") == "1"
jax.config.update("jax_enable_x64", X64)
_finished = itertools.count(1)


def pytest_collection_modifyitems(config, items):
    reasons = {"x64": "a statement about float64", "once": "does not depend on the precision"}
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker) and not X64:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_configure(config):
    config.addinivalue_line("markers", "x64: a statement about float64, skipped in the float32 run")
    config.addinivalue_line("markers", "once: does not depend on the precision, skipped in the float32 run")


def pytest_runtest_teardown(item):
    # every compiled program holds memory maps, and a process may have only so many (vm.max_map_count)
    if next(_finished) % 100 == 0:
        jax.clear_caches()
