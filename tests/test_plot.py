"""Pictures show the numbers that they were given, at the right places, and return their Axes."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

pytestmark = pytest.mark.once

LAMS = np.logspace(2, -1, 7)
COEFS = np.outer(1 / (1 + LAMS), [5.0, 4.9, 4.8, -2.0, 0.1])
SCORES = (np.log10(LAMS) - 1)[:, None] ** 2 + np.linspace(1, 1.6, 4)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    matplotlib.pyplot.close("all")


def verticals(ax):
    """Where the lines are that mark a choice."""
    return [line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2]


def curve(ax, label):
    return next(line for line in ax.lines if line.get_label().startswith(label))


def test_path_draws_every_coefficient_over_a_logarithmic_axis():
    ax = plot.plot_path(COEFS, LAMS, chosen=3.0)
    drawn = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) == len(LAMS)]
    np.testing.assert_array_equal(np.stack(drawn, 1), COEFS[::-1])
    assert ax.get_xscale() == "log"
    assert verticals(ax) == [3.0]


@pytest.mark.parametrize("grid", [LAMS, 1 / LAMS], ids=["strengths", "radii"])
def test_names_beside_lines_do_not_overlap(grid):
    names = ["first", "second", "third", "fourth", "fifth"]
    ax = plot.plot_path(COEFS, grid, names=names)
    ax.figure.canvas.draw()
    boxes = [matplotlib.text.Text.get_window_extent(text) for text in ax.texts]  # without the line to the curve
    assert sorted(text.get_text() for text in ax.texts) == sorted(names)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    frame = ax.get_window_extent()
    assert all(frame.x0 <= box.x0 and frame.y0 <= box.y0 and box.y1 <= frame.y1 for box in boxes)
    end = ax.transData.transform((grid[-1], 0))[0]  # where the coefficients are largest
    assert all(box.x1 < end if grid is LAMS else end < box.x0 <= box.x1 <= frame.x1 for box in boxes)


def test_a_solution_brings_its_grid_and_the_names_of_its_tree():
    X = np.random.default_rng(0).normal(size=(20, 3))
    design = {"age": X[:, 0], "genes": X[:, 1:]}
    fits = jax.vmap(lambda lam: regjax.ridge(design, X @ [1.0, 2.0, 3.0], lam))(jnp.array([5.0, 1.0]))
    ax = plot.plot_path(replace(fits, lam=jnp.array([5.0, 1.0])))
    assert [text.get_text() for text in ax.texts] == ["age", "genes[0]", "genes[1]"]
    one = jax.tree.map(lambda leaf: leaf[1], fits)
    bars = plot.plot_coefficients(one)
    assert [label.get_text() for label in bars.get_yticklabels()] == ["genes[1]", "genes[0]", "age"]


def test_cross_validation_marks_both_choices():
    mean, error = SCORES.mean(1), SCORES.std(1) / np.sqrt(3)
    best = int(mean.argmin())
    simplest = int(np.argmax(np.where(mean <= mean[best] + error[best], LAMS, 0)))
    ax = plot.plot_cross_validation(SCORES, LAMS)
    np.testing.assert_allclose(curve(ax, "mean").get_ydata(), mean[::-1])
    np.testing.assert_allclose(verticals(ax), LAMS[[best, simplest]])
    given = SimpleNamespace(
        scores=SCORES, mean=mean, standard_error=error, best=2, one_se=1, penalties=regjax.penalties.L1(LAMS),
        path=SimpleNamespace(params=SimpleNamespace(coef=COEFS)),
    )  # fmt: skip
    assert verticals(plot.plot_cross_validation(given)) == [LAMS[2], LAMS[1]]
    assert verticals(plot.plot_path(given)) == [LAMS[2], LAMS[1]]


def test_leave_one_out_marks_the_minimum_and_draws_where_it_is_told():
    ax = plot.plot_path(COEFS, LAMS)
    again = plot.plot_leave_one_out(SCORES[:, 0], LAMS, ax=ax)
    assert again is ax
    point = curve(ax, "λ = ")
    assert point.get_xdata()[0] == LAMS[SCORES[:, 0].argmin()]


def test_bias_and_variance_add_up():
    ax = plot.plot_bias_variance(LAMS, 1 / LAMS, LAMS, noise=0.5)
    total = curve(ax, "expected").get_ydata()
    np.testing.assert_allclose(total, (LAMS + 1 / LAMS + 0.5)[::-1])
    assert curve(ax, "least").get_xdata()[0] == LAMS[np.argmin(LAMS + 1 / LAMS)]


def test_learning_curve_is_the_mean_over_repeats():
    sizes, repeats = np.array([10, 50, 400]), np.arange(12.0).reshape(3, 4)
    ax = plot.plot_learning_curve(sizes, repeats, repeats[:, 0])
    np.testing.assert_allclose(curve(ax, "training").get_ydata(), repeats.mean(1))
    np.testing.assert_allclose(curve(ax, "validation").get_ydata(), repeats[:, 0])
    assert ax.get_xscale() == "log"


def test_results_bring_their_own_axes_bands_and_words():
    """Every function takes what the library returns, with nothing else."""
    loo = regjax.LeaveOneOut(
        SCORES, SCORES.mean(1), SCORES.std(1), jnp.int32(3), jnp.int32(2), None, None, regjax.penalties.L1Ball(LAMS)
    )
    ax = plot.plot_leave_one_out(loo)
    np.testing.assert_allclose(curve(ax, "mean over samples").get_ydata(), SCORES.mean(1)[::-1])
    assert verticals(ax) == [LAMS[3], LAMS[2]]
    assert ax.get_xlabel() == "radius"
    assert curve(ax, "best: radius = ")
    parts = regjax.BiasVariance(LAMS, 1 / LAMS, 0.5, LAMS + 1 / LAMS + 0.5, 0 * LAMS, {"lam": LAMS}, None)
    ax = plot.plot_bias_variance(parts)
    np.testing.assert_allclose(curve(ax, "expected").get_ydata(), parts.mse[::-1])
    assert ax.get_xlabel() == "penalty strength λ"
    ax = plot.plot_bias_variance(replace(parts, hyperparameters={"bandwidth": LAMS}))
    assert ax.get_xlabel() == "bandwidth"
    assert curve(ax, "least at bandwidth = ")
    sizes, error = np.array([10, 20, 30]), np.array([3.0, 2.0, 1.9])
    learning = regjax.LearningCurve(sizes, error / 2, error, error / 10, error / 5, error + 9, None)
    ax = plot.plot_learning_curve(learning)
    np.testing.assert_allclose(curve(ax, "validation").get_ydata(), error)
    np.testing.assert_allclose(curve(ax, "error of the null").get_ydata(), error + 9)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([band.min(), band.max()], [0.8 * 1.9, 1.2 * 3.0])
    assert ax.get_title(loc="left") == "Learning curve: balanced"
    grid = regjax.penalties.ElasticNet(1.0, LAMS[:3])
    ax = plot.plot_learning_curve(
        regjax.ValidationCurve(grid, error, error, error / 10, error / 5, jnp.array(2.0), None)
    )
    np.testing.assert_allclose(curve(ax, "training").get_xdata(), LAMS[:3][::-1])
    assert ax.get_title(loc="left") == "Validation curve: underfit"
    assert ax.get_xlabel() == "penalty strength λ"


@pytest.mark.once
def test_gp_draws_mean_band_samples_and_data():
    x = jnp.linspace(0, 3, 6)
    process = regjax.gp(regjax.kernels.RBF(1.0), x[:, None], jnp.sin(x), 0.01)
    Z = np.linspace(-1, 4, 9)
    ax = plot.plot_gp(process, Z, samples=3)
    np.testing.assert_allclose(curve(ax, "mean").get_ydata(), process(Z[:, None]))
    np.testing.assert_array_equal(curve(ax, "data").get_ydata(), process.targets)
    low, high = process.interval(Z[:, None], 0.95)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([band.min(), band.max()], [low.min(), high.max()], rtol=1e-6)
    assert len([line for line in ax.lines if len(line.get_xdata()) == 9]) == 4
    with pytest.raises(ValueError, match="more than one input"):
        plot.plot_gp(regjax.gp(regjax.kernels.RBF(1.0), jnp.ones((3, 2)), jnp.ones(3), 0.1))


def test_residuals_state_their_size():
    y = np.arange(40.0)
    ax = plot.plot_residuals(y + np.where(np.arange(40) % 2, 3.0, -3.0), y)
    assert "root mean square 3," in ax.get_title(loc="left")
    assert "R² = 0.932" in ax.get_title(loc="left")


def test_coefficients_are_sorted_and_zeros_left_out():
    ax = plot.plot_coefficients(np.array([0.0, -3.0, 1.0, 2.0]), names=list("abcd"), errors=np.full(4, 0.5), most=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "d"]
    assert [bar.get_width() for bar in ax.patches] == [-3.0, 2.0]
    assert "3 of 4 not zero, the largest 2 shown" in ax.get_title(loc="left")


def test_names_are_no_mathematics():
    for draw in (
        lambda names: plot.plot_coefficients(COEFS[0], names=names),
        lambda names: plot.plot_path(COEFS, LAMS, names=names),
    ):
        ax = draw(["us$ and ca$", r"$\frac{$", "$y_{$", "a", "b"])
        ax.figure.canvas.draw()
        assert ax.get_title(loc="left")


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"scores has shape \(3,\): it takes \(7,\)"):
        plot.plot_leave_one_out(np.ones(3), LAMS)
    with pytest.raises(ValueError, match="names has 2 entries for 5 coefficients"):
        plot.plot_path(COEFS, LAMS, names=["a", "b"])
    with pytest.raises(ValueError, match="lams takes the values"):
        plot.plot_path(COEFS)
