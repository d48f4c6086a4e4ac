"""`regjax fit`, `regjax predict` and `regjax demo`: what the arguments ask for, done."""

import csv
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from regjax.command.contest import choose_models, error_name, leaderboard, pose, run
from regjax.command.predict import load_model, predict
from regjax.command.report import Contest, write_report
from regjax.command.table import BadTable, encode, feature_names, learn_encoding, read_table, read_target


def fit(path: Path, target: str, models: str, folds: int, out: Path, drop: str = "") -> None:
    """Read, encode, fit every model, print the leaderboard, write the report."""
    table = read_table(path)
    for name in filter(None, (part.strip() for part in drop.split(","))):
        if table.columns.pop(name, None) is None:
            raise BadTable(f"{path} has no column '{name}' to drop")
    y = read_target(table, target)
    encoding, notes = learn_encoding(table, target)
    problem = pose(encode(table, encoding), y, folds)
    chosen, more = choose_models(models, problem)
    _make(out)
    names = feature_names(encoding)
    print(f"{path.name}: {len(y)} rows, {len(names)} columns, target '{target}' ({problem.kind}), {folds} folds")
    for note in notes + more:
        print(f"note: {note}")
    entries = run(problem, chosen, report=lambda line: print(line, file=sys.stderr, flush=True))
    print()
    _print_board(leaderboard(entries), error_name(problem))
    written = write_report(Contest(path.name, target, encoding, names, problem, entries, notes + more), out)
    print(f"\nwritten: {', '.join(str(place) for place in written)}")


def predict_table(model: Path, table: Path, out: Path | None) -> None:
    """Predictions as CSV, to a file or to the terminal."""
    columns = predict(load_model(model), table)
    rows = [list(columns), *zip(*(column.tolist() for column in columns.values()), strict=True)]
    rows[1:] = [[repr(value) for value in row] for row in rows[1:]]  # all digits: the spread may be small
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
        return
    _make(out.parent)
    try:
        with out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    except OSError as error:
        raise BadTable(f"{out} is not a file that can be written to: {error.strerror}") from error
    print(f"{len(rows) - 1} predictions: {out}")


def demo(out: Path, models: str = "all") -> None:
    """The contest on the bundled diabetes data."""
    with as_file(files("regjax.data").joinpath("files", "diabetes.csv")) as path:
        print("The progression of diabetes in 442 patients one year later (Efron et al., 2004), from 10 measurements.")
        fit(path, "target", models, 10, out)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadTable(f"{folder} is not a folder that can be written to: {error.strerror}") from error


def _print_board(rows: list[dict[str, str]], error: str) -> None:
    heads = {key: error if key == "error" else key for key in rows[0]}
    widths = {key: max(len(heads[key]), *(len(row[key]) for row in rows)) for key in heads}
    for row in [heads, *rows]:
        print("  ".join(row[key].ljust(widths[key]) for key in widths).rstrip())
