"""The command that `make demo` runs, as a user runs it, and the pictures."""

import os
import subprocess
import sys

import numpy as np
import pytest

from regjax import plot

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


def test_plots_return_their_axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    lams = np.logspace(-1, 1, 5)
    ax = plot.plot_path(lams, np.outer(1 / lams, [1.0, -2.0]), names=["a", "b"], chosen=1.0)
    assert ax.get_xscale() == "log"
    assert len(ax.get_legend().get_texts()) == 2
    curve = plot.plot_leave_one_out(lams, (np.log(lams) - 1) ** 2, ax=ax)
    assert curve is ax
    matplotlib.pyplot.close("all")
