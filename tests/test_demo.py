"""The command that `make demo` runs, as a user runs it, and the pictures."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.once


def test_demo_prints_a_table_and_draws_a_picture(tmp_path):
    command = [sys.executable, "-m", "regjax", "demo", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "<- chosen" in done.stdout
    assert "bmi" in done.stdout
    picture = (tmp_path / "out" / "ridge_path.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_unknown_command_is_refused():
    done = subprocess.run([sys.executable, "-m", "regjax", "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice" in done.stderr
