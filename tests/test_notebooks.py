"""The notebooks run, draw, and find what they say."""

import runpy
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

pytestmark = pytest.mark.once
FOLDER = Path(__file__).parents[1] / "notebooks"
# what each says, of the variables that it leaves
CLAIMS = {
    "1_ridge_and_lasso": lambda v: len(v["kept"]) == 4 and v["chosen"] < 1.1 * v["least"] and bool(v["cv"].converged),
    "2_leave_one_out": lambda v: v["difference"] < 1e-12 and abs(float(v["slope"](v["middle"]))) < 1e-6,
    "3_kernels_and_gaussian_processes": lambda v: v["error"] < 0.6 * v["naive"] and 0.85 < v["inside"] <= 1,
    "4_a_thousand_fits": lambda v: bool(v["fits"].converged.all()) and v["table"].size == 5000,
    "5_penalties_by_gradient": lambda v: v["many"] < 0.5 * v["one"],
}


def test_every_notebook_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CLAIMS)


@pytest.mark.parametrize("notebook", CLAIMS)
def test_notebook(notebook):
    variables = runpy.run_path(str(FOLDER / f"{notebook}.py"))
    assert matplotlib.pyplot.get_fignums()
    matplotlib.pyplot.close("all")
    assert CLAIMS[notebook](variables)
