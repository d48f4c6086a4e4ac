"""The suite runs in float64, and again in float32 with REGJAX_TEST_X64=0."""

import os

import jax
import pytest

X64 = os.environ.get("REGJAX_TEST_X64", "1") == "1"
jax.config.update("jax_enable_x64", X64)


def pytest_collection_modifyitems(config, items):
    skip = pytest.mark.skip(reason="a statement about float64")
    for item in items:
        if item.get_closest_marker("x64") and not X64:
            item.add_marker(skip)


def pytest_configure(config):
    config.addinivalue_line("markers", "x64: a statement about float64, skipped in the float32 run")
