"""What a contest leaves in a folder: one page, the model, its coefficients and a summary."""

import base64
import csv
import html
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regjax.command.contest import Entry, error_name, leaderboard, linear, saved_model
from regjax.command.models import CANDIDATES, Problem
from regjax.files import save
from regjax.losses import Huber, Squared

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.35rem 0.6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td { white-space: nowrap; } td:first-child, td:nth-child(4) { white-space: normal; } 
td:first-child { min-width: 12rem; } small { color: #666; }
tr.first { background: #fdf3ec; font-weight: 600; } tr.first small { font-weight: 400; }
.scroll { overflow-x: auto; } .note, figcaption, footer { color: #555; font-size: 0.95rem; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; }
"""


class Contest(NamedTuple):
    """What a report is about."""

    table: str
    target: str
    encoding: list[dict[str, Any]]
    names: list[str]
    problem: Problem
    entries: list[Entry]
    notes: list[str]


def write_report(contest: Contest, folder: Path) -> list[Path]:
    """Write `report.html`, `model.npz`, `coefficients.csv` and `summary.json`, and return where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("report.html", "model.npz", "coefficients.csv", "summary.json")]
    page, model, coefficients, summary = paths
    page.write_text(_page(contest), encoding="utf-8")
    save(model, saved_model(contest.problem, contest.entries[0], contest.encoding, contest.target))
    with coefficients.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(_coefficients(contest))
    summary.write_text(json.dumps(_summary(contest), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return paths


def _page(contest: Contest) -> str:
    problem, first = contest.problem, contest.entries[0]
    n, p = problem.X.shape
    rows = leaderboard(contest.entries)
    heads = [error_name(problem) if name == "error" else name for name in rows[0]]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr{' class=first' if i == 0 else ''}><td>{row['model']}<br>"
        + f"<small>{html.escape(CANDIDATES[row['model']].about)}</small></td>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in list(row.values())[1:])
        + "</tr>\n"
        for i, row in enumerate(rows)
    )
    notes = "".join(f"<p class=note>{html.escape(note)}.</p>\n" for note in contest.notes)
    title = f"{contest.target} from {p} columns"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
<p>{html.escape(contest.table)}: {n} rows, {problem.folds.test.shape[0]} folds. The least {error_name(problem)} on
held-out samples is that of <b>{html.escape(first.name)}</b>: {html.escape(rows[0]["error"])},
{_next_to_mean(contest)}.</p>
{notes}<h2>Leaderboard</h2>
<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>
{body}</tbody></table></div>
<p class=note>Error: {error_name(problem)} over held-out folds ± one standard error. Behind the best: the mean
difference over the shared folds; a difference of less than two of its standard errors is no evidence. λ is on
standardised columns (and a standardised target for models of squared error), in the sum over samples. Gap: the relative
duality gap of the fit, a bound on how far it is from its optimum; – where there is none. Seconds: with compilation. The
error of the first is a little too good, as it was chosen for it.</p>
<h2>Pictures</h2>
{_figures(contest)}
<footer>Made by regjax. <code>regjax predict model.npz new.csv</code> predicts with {html.escape(first.name)};
coefficients.csv has the linear models in the units of the table.</footer>
</body></html>
"""


def _next_to_mean(contest: Contest) -> str:
    """How the winner compares with the mean of the target, which is always in the contest."""
    first = contest.entries[0]
    if first.name == "mean":
        return "so that none of these models predicts better than the mean of the target"
    mean = next(entry.error for entry in contest.entries if entry.name == "mean")
    return f"which is {100 * (1 - first.error / mean):.0f}% less than that of the mean"


def _figures(contest: Contest) -> str:
    try:
        import matplotlib
    except ImportError:
        return "<p class=note>No pictures: matplotlib is not installed (pip install regjax[plot]).</p>"
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from regjax.command.pictures import draw

    parts = []
    for caption, ax in draw(contest.problem, contest.entries, contest.names, contest.target):
        image = io.BytesIO()
        ax.figure.savefig(image, format="png", dpi=110)
        plt.close(ax.figure)
        data = base64.b64encode(image.getvalue()).decode()
        text = html.escape(caption)
        parts.append(
            f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'
        )
    return "\n".join(parts)


def _coefficients(contest: Contest) -> list[list[Any]]:
    """A table of the linear models, with coefficients per unit of each column as it is in the file."""
    chosen = [entry for entry in contest.entries if linear(entry.trial)]
    means, scales = (np.concatenate([np.ravel(c[key]) for c in contest.encoding]) for key in ("mean", "scale"))
    centre, spread = float(contest.problem.y.mean()), float(contest.problem.y.std())
    columns = []
    for entry in chosen:
        params = entry.trial.solution.params
        shift, unit = (centre, spread) if isinstance(entry.trial.loss, (Squared, Huber)) else (0.0, 1.0)
        coef = unit * np.asarray(params.coef) / scales
        columns.append([shift + unit * float(params.intercept) - float(coef @ means), *coef.tolist()])
    return [["column", *(e.name for e in chosen)]] + [
        [name, *(column[j] for column in columns)] for j, name in enumerate(["(intercept)", *contest.names])
    ]


def _summary(contest: Contest) -> dict[str, Any]:
    board = [
        {
            "model": e.name, "error": e.error, "standard_error": e.standard_error, "behind": e.behind,
            "behind_standard_error": e.behind_error, "chosen": e.trial.setting, "nonzero": e.nonzero,
            "gap": None if np.isnan(e.gap) else e.gap, "fits": e.fits, "failed": e.failed,
            "seconds": round(e.seconds, 2), "fold_errors": e.errors.tolist(),
        }
        for e in contest.entries
    ]  # fmt: skip
    n, p = contest.problem.X.shape
    return {
        "table": contest.table, "target": contest.target, "kind": contest.problem.kind, "rows": n, "columns": p,
        "folds": contest.problem.folds.test.shape[0], "error": error_name(contest.problem),
        "winner": contest.entries[0].name, "leaderboard": board, "notes": contest.notes,
    }  # fmt: skip
