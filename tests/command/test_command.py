"""The command line from end to end: a table in, a report out, predictions from raw columns."""

import csv
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import regjax
from regjax.__main__ import main
from regjax.command.contest import pose, run, saved_model
from regjax.command.models import CANDIDATES
from regjax.command.predict import predict
from regjax.command.report import _next_to_mean
from regjax.command.table import learn_encoding, read_table
from regjax.selection.splits import k_folds
from tests.command.tables import houses, write

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    table = write(folder / "houses.csv", *houses())
    command = ["fit", str(table), "--target", "price", "--models", "ridge,bayes_linear", "--folds", "4", "--out"]
    assert main([*command, str(folder / "out")]) == 0
    return folder


def test_summary_has_the_errors_that_numpy_finds(report):
    """Ridge at the chosen λ, refitted on each of the folds."""
    summary = json.loads((report / "out" / "summary.json").read_text())
    assert (summary["rows"], summary["columns"], summary["folds"], summary["kind"]) == (60, 6, 4, "numbers")
    board = {row["model"]: row for row in summary["leaderboard"]}
    assert list(board)[-1] == "mean"
    _, rows = houses()
    towns = ["Bergen", "Oslo", "Trondheim"]
    X = np.array([[r[0], r[1], *(r[2] == t for t in towns), r[3] == "yes"] for r in rows], float)
    y = np.array([r[-1] for r in rows])
    X, z = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    errors = []
    for test in np.asarray(k_folds(60, 4).test):
        train = ~test
        centre, mean = X[train].mean(0), z[train].mean()
        A = X[train] - centre
        w = np.linalg.solve(A.T @ A + board["ridge"]["chosen"]["λ"] * np.eye(6), A.T @ (z[train] - mean))
        errors.append(np.mean((z[test] - mean - (X[test] - centre) @ w) ** 2) * y.var())
    np.testing.assert_allclose(board["ridge"]["fold_errors"], errors, rtol=1e-8)
    np.testing.assert_allclose(board["ridge"]["error"], np.mean(errors), rtol=1e-8)
    np.testing.assert_allclose(board["ridge"]["standard_error"], np.std(errors) / np.sqrt(3), rtol=1e-8)
    assert board["ridge"]["failed"] == 0


def test_report_is_one_page_with_its_pictures(report):
    page = (report / "out" / "report.html").read_text()
    assert len(re.findall(r'src="data:image/png;base64,[A-Za-z0-9+/=]{5000,}"', page)) >= 4
    assert not re.search(r"(src|href)=\"?https?:", page)
    for name in ("ridge", "bayes_linear", "mean", "floor"):
        assert name in page


@pytest.mark.once
def test_folds_of_unequal_size_count_by_their_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 1))
    problem = pose(X, X[:, 0] + rng.normal(size=10), 4)
    first, last = run(problem, {name: CANDIDATES[name] for name in ("mean", "ols")}, report=lambda _: None)
    difference, share = last.errors - first.errors, np.asarray(problem.folds.test).sum(1) / 10
    assert len(set(share)) == 2
    mean = share @ difference
    np.testing.assert_allclose([last.behind, last.error - first.error], mean)
    np.testing.assert_allclose(last.behind_error, np.sqrt(share @ (difference - mean) ** 2 / 3))


def test_a_report_does_not_praise_the_mean():
    mean, other = (SimpleNamespace(name=name, error=error) for name, error in (("mean", 2.0), ("ols", 1.5)))
    assert _next_to_mean(SimpleNamespace(entries=[other, mean])) == "which is 25% less than that of the mean"
    assert "none of these models predicts better" in _next_to_mean(SimpleNamespace(entries=[mean, other]))


def test_predictions_from_raw_columns_in_another_order_are_those_of_the_coefficients(report, capsys):
    _, rows = houses()
    new = write(report / "new.csv", ["garden", "town", "rooms", "area"], [[r[3], r[2], r[1], r[0]] for r in rows[:5]])
    capsys.readouterr()
    assert main(["predict", str(report / "out" / "model.npz"), str(new)]) == 0
    printed = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    coefficients = {
        row["column"]: row for row in csv.DictReader((report / "out" / "coefficients.csv").read_text().splitlines())
    }
    winner = json.loads((report / "out" / "summary.json").read_text())["winner"]
    w = {name: float(row[winner]) for name, row in coefficients.items()}
    for row, line in zip(rows, printed, strict=False):
        by_hand = w["(intercept)"] + w["area"] * row[0] + w["rooms"] * row[1] + w[f"town={row[2]}"]
        by_hand += w["garden=yes"] * (row[3] == "yes")
        np.testing.assert_allclose(float(line["price"]), by_hand, rtol=1e-6)
    if winner == "bayes_linear":
        assert float(printed[0]["price (2.5%)"]) < float(printed[0]["price"]) < float(printed[0]["price (97.5%)"])
    assert main(["predict", str(report / "out" / "model.npz"), str(new), "--out", str(report / "predictions.csv")]) == 0
    assert len((report / "predictions.csv").read_text().splitlines()) == 6
    assert main(["predict", str(report / "out" / "model.npz"), str(new), "--out", str(report / "out")]) == 2
    assert "is not a file that can be written to" in capsys.readouterr().err


def test_predictions_keep_the_digits_of_a_target_far_from_zero(tmp_path, capsys):
    header, rows = houses()
    rows = [[*row[:-1], 1.7e9 + row[-1]] for row in rows]
    table = write(tmp_path / "table.csv", header, rows)
    command = ["fit", str(table), "--target", "price", "--models", "ols", "--folds", "4"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "out" / "model.npz"), str(table)]) == 0
    found = [float(row["price"]) for row in csv.DictReader(capsys.readouterr().out.splitlines())]
    y = np.array([row[-1] for row in rows])
    assert np.mean((found - y) ** 2) < 0.9 * y.var()


COLUMNS = ["town", "rooms", "area", "garden"]
BAD = {
    "lacks": (COLUMNS[:2], ["Oslo", 3], "lacks 'area', 'garden', which the model was fitted with"),
    "stranger": (COLUMNS, ["Rome", 3, 80, "no"], "such as 'Rome' in line 2: it knows 'Bergen', 'Oslo', 'Trondheim'"),
    "text": (COLUMNS, ["Oslo", "three", 80, "no"], "the column 'rooms' takes numbers, but 1 row is text"),
    "empty": (COLUMNS, ["Oslo", "", 80, "no"], "has empty cells or NaN in 'rooms' (1 of 1)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_new_tables_get_a_sentence(name, report, capsys):
    header, row, sentence = BAD[name]
    capsys.readouterr()
    assert main(["predict", str(report / "out" / "model.npz"), str(write(report / "bad.csv", header, [row]))]) == 2
    assert sentence in capsys.readouterr().err


def test_what_is_no_model_is_refused(report, capsys):
    for path, sentence in (
        (report / "none.npz", "there is no such file"),
        (report / "houses.csv", "is not a file that regjax.save wrote"),
    ):
        assert main(["predict", str(path), str(report / "houses.csv")]) == 2
        assert sentence in capsys.readouterr().err
    regjax.save(report / "other.npz", [1.0])
    assert main(["predict", str(report / "other.npz"), str(report / "houses.csv")]) == 2
    assert "holds no model of `regjax fit`" in capsys.readouterr().err
    (report / "taken").write_text("")
    command = ["fit", str(report / "houses.csv"), "--target", "price", "--out", str(report / "taken")]
    assert main(command) == 2
    assert "is not a folder that can be written to" in capsys.readouterr().err


def test_demo_as_a_user_runs_it_on_a_terminal_without_greek_letters(tmp_path):
    command = [sys.executable, "-m", "regjax", "demo", "--models", "ols", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "[2/2] ols" in done.stderr
    assert done.stdout.index("\nols ") < done.stdout.index("\nmean ")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "report.html", "model.npz", "coefficients.csv", "summary.json",
    }  # fmt: skip
    unknown = subprocess.run([sys.executable, "-m", "regjax", "dance"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "invalid choice" in unknown.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
def test_every_model_enters_beats_the_mean_and_is_saved(name, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    eta = 1.5 * X[:, 0] - X[:, 1]
    model = CANDIDATES[name]
    y = {
        "numbers": eta + rng.normal(size=60),
        "counts": rng.poisson(np.exp(0.5 * eta)).astype(float),
        "classes": (eta + rng.logistic(size=60) > 0).astype(float),
    }[model.kinds[0]]
    problem = pose((X - X.mean(0)) / X.std(0), y, 4)
    board = {entry.name: entry for entry in run(problem, {"mean": CANDIDATES["mean"], name: model}, lambda line: None)}
    assert board[name].failed == 0
    assert board[name].error <= board["mean"].error
    assert np.all(np.isfinite(board[name].predictions))
    if problem.kind != "classes":
        np.testing.assert_allclose(np.mean((board[name].predictions - y) ** 2), board[name].error, rtol=1e-6)
    table = write(tmp_path / "new.csv", ["a", "b", "c"], X.tolist())
    encoding, _ = learn_encoding(read_table(table), "y")
    regjax.save(tmp_path / "model.npz", saved_model(problem, board[name], encoding, "y"))
    predicted = next(iter(predict(regjax.load(tmp_path / "model.npz"), table).values()))
    assert predicted.shape == (60,)
    fitted = np.mean((predicted - y) ** 2)
    assert fitted <= np.mean((board[name].predictions - y) ** 2) * 1.001
