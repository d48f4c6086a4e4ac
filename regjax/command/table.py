"""Tables from files, and their columns as numbers: text is one-hot encoded, every column standardised.

The encoding is plain data (dictionaries, strings, numbers), learned from one table and applied to others.
"""

import csv
import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MISSING = {"", "na", "n/a", "nan", "null"}
MOST_TEXTS = 30  # a column with more different texts than this identifies rows if most of them occur once
_WITH_COMMA = re.compile(r"[-+]?[\d.,]*,\d+(\.\d*)?")


class BadTable(ValueError):
    """What is wrong with a table, in a sentence for the person who made it."""


class Table(NamedTuple):
    """Cells as they are in a file.

    Attributes:
        path: of the file.
        columns: the cells of each column by its name.
        lines: the line of each row in the file.
    """

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]


def read_table(path: str | Path) -> Table:
    """Read CSV (separated by comma, semicolon or tab), or Parquet where pandas is installed."""
    path = Path(path)
    if not path.is_file():
        raise BadTable(f"{path}: there is no such file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _read_parquet(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = next((line for line in file if line.strip()), "")
            names = re.sub(r'"[^"]*"', "", first)  # separators within quotes separate nothing
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=names.count))
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except UnicodeDecodeError as error:
        raise BadTable(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise BadTable(f"{path} is not CSV: {error}") from error
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from error
    if not rows:
        raise BadTable(f"{path} is empty: it takes a line of column names and a line for each sample")
    (_, header), *body = rows
    _check_header(path, header)
    if not body:
        raise BadTable(f"{path} has column names but no rows")
    for line, row in body:
        if len(row) != len(header):
            raise BadTable(f"{path}: line {line} has {len(row)} cells, but there are {len(header)} column names")
    columns = {name: [row[j] for _, row in body] for j, name in enumerate(header)}
    return Table(path, columns, [line for line, _ in body])


def _read_parquet(path: Path) -> Table:
    try:
        import pandas as pd  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise BadTable(
            f"{path}: reading Parquet takes pandas (pip install 'regjax[parquet]'); CSV needs nothing"
        ) from error
    try:
        frame = pd.read_parquet(path)
    except (ImportError, OSError, ValueError) as error:
        raise BadTable(f"{path} is not read as Parquet: {str(error).splitlines()[0]}") from error
    _check_header(path, [str(name) for name in frame.columns])
    if len(frame) == 0:
        raise BadTable(f"{path} has column names but no rows")
    cells = {str(name): ["" if pd.isna(v) else str(v).strip() for v in frame[name]] for name in frame.columns}
    return Table(path, cells, list(range(1, len(frame) + 1)))


def _check_header(path: Path, header: list[str]) -> None:
    unnamed = [j + 1 for j, name in enumerate(header) if not name]
    if unnamed:
        raise BadTable(f"{path}: column {unnamed[0]} has no name (a row number?): name it or remove it")
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise BadTable(f"{path} has more than one column named {_quoted(repeated)}")


def read_target(table: Table, name: str) -> np.ndarray:
    """The target (n,): numbers, not all the same."""
    if name not in table.columns:
        near = difflib.get_close_matches(name, table.columns, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"its columns are {_quoted(table.columns)}"
        raise BadTable(f"{table.path} has no column '{name}': {hint}")
    _check_missing(table, [name])
    values, texts = _numbers(table, name)
    if texts:
        raise BadTable(
            f"{table.path}: the target '{name}' takes numbers, but {_where(table, name, texts)} "
            "(write two classes as 0 and 1)"
        )
    if np.all(values == values[0]):
        raise BadTable(f"{table.path}: the target '{name}' is {values[0]:g} in every row, there is nothing to predict")
    _spread(table, f"the target '{name}'", values)
    return values


def learn_encoding(table: Table, target: str) -> tuple[list[dict[str, Any]], list[str]]:
    """How to turn the columns other than the target into numbers, and what was left out, in sentences."""
    names = [name for name in table.columns if name != target]
    _check_missing(table, names)
    encoding, notes = [], []
    for name in names:
        values, texts = _numbers(table, name)
        if 0 < len(texts) <= len(values) / 2:
            raise BadTable(f"{table.path}: the column '{name}' is numbers, but {_where(table, name, texts)}")
        if texts and all(_WITH_COMMA.fullmatch(table.columns[name][row]) for row in texts):
            raise BadTable(
                f"{table.path}: the column '{name}' has numbers with a comma, such as "
                f"'{table.columns[name][texts[0]]}' in line {table.lines[texts[0]]}: write them with a point for the "
                "decimals and nothing between thousands"
            )
        if texts:
            categories = sorted(set(table.columns[name]))
            if len(categories) > max(MOST_TEXTS, len(values) / 2):
                notes.append(f"'{name}' is left out: {len(categories)} different texts in {len(values)} rows")
                continue
            if len(categories) > 1:
                encoding.append({"column": name, "categories": categories})
        elif np.any(values != values[0]):
            encoding.append({"column": name})
        if len(set(table.columns[name])) == 1 or (not texts and np.all(values == values[0])):
            notes.append(f"'{name}' is left out: it is {table.columns[name][0]} in every row")
    if not encoding:
        raise BadTable(f"{table.path} has no column to predict '{target}' from")
    for column in encoding:
        block = _block(table, column)
        column["scale"] = _spread(table, f"the column '{column['column']}'", block).tolist()
        column["mean"] = block.mean(0).tolist()
    return encoding, notes


def _spread(table: Table, what: str, values: np.ndarray) -> np.ndarray:
    """Standard deviations of values that are not constant."""
    with np.errstate(over="ignore", under="ignore"):
        spread = values.std(0)
        squares = spread**2  # of which errors are made
    if not np.all(np.isfinite(squares) & (squares >= np.finfo(float).tiny)):
        raise BadTable(
            f"{table.path}: {what} has values so large or so small that their standard deviation cannot be computed: "
            "change its unit"
        )
    return spread


def encode(table: Table, encoding: list[dict[str, Any]]) -> np.ndarray:
    """The columns as numbers (n, p), each with the mean 0 and standard deviation 1 that it had when learned."""
    lacking = [column["column"] for column in encoding if column["column"] not in table.columns]
    if lacking:
        raise BadTable(f"{table.path} lacks {_quoted(lacking)}, which the model was fitted with")
    _check_missing(table, [column["column"] for column in encoding])
    blocks = []
    for column in encoding:
        blocks.append((_block(table, column) - np.array(column["mean"])) / np.array(column["scale"]))
    return np.concatenate(blocks, axis=1)


def feature_names(encoding: list[dict[str, Any]]) -> list[str]:
    """The names of the columns of `encode`: `age`, `town=Bergen`."""
    return [
        name if category is None else f"{name}={category}"
        for name, categories in ((c["column"], c.get("categories")) for c in encoding)
        for category in ([None] if categories is None else _shown(categories))
    ]


def _shown(categories: list[str]) -> list[str]:
    """The categories that get a column: all, but of two only the second."""
    return categories[1:] if len(categories) == 2 else categories


def _block(table: Table, column: dict[str, Any]) -> np.ndarray:
    """One column as numbers (n, k), not yet standardised."""
    name, categories = column["column"], column.get("categories")
    if categories is None:
        values, texts = _numbers(table, name)
        if texts:
            raise BadTable(f"{table.path}: the column '{name}' takes numbers, but {_where(table, name, texts)}")
        return values[:, None]
    cells = table.columns[name]
    strangers = [i for i, cell in enumerate(cells) if cell not in categories]
    if strangers:
        count, first = len(strangers), strangers[0]
        raise BadTable(
            f"{table.path}: the column '{name}' has a value that the model has not seen in {count} "
            f"row{'s' if count > 1 else ''}, such as '{cells[first]}' in line {table.lines[first]}: "
            f"it knows {_quoted(categories)}"
        )
    return np.array([[float(cell == category) for category in _shown(categories)] for cell in cells])


def _numbers(table: Table, name: str) -> tuple[np.ndarray, list[int]]:
    """The cells as numbers, nan for texts, and the rows that are texts."""
    values = np.array([_number(cell) for cell in table.columns[name]])
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise BadTable(f"{table.path}: the column '{name}' is infinite in line {table.lines[infinite[0]]}")
    return values, np.flatnonzero(np.isnan(values)).tolist()


def _number(cell: str) -> float:
    try:
        return float(cell) if "_" not in cell else math.nan
    except ValueError:
        return math.nan


def _check_missing(table: Table, names: Iterable[str]) -> None:
    counts = {name: sum(cell.lower() in MISSING for cell in table.columns[name]) for name in names}
    bad = [f"'{name}' ({count} of {len(table.lines)})" for name, count in counts.items() if count]
    if bad:
        raise BadTable(f"{table.path} has empty cells or NaN in {_joined(bad)}: fill them, or remove those rows")


def _where(table: Table, name: str, rows: list[int]) -> str:
    rest = "rows are" if len(rows) > 1 else "row is"
    return f"{len(rows)} {rest} text, such as '{table.columns[name][rows[0]]}' in line {table.lines[rows[0]]}"


def _quoted(names: Iterable[str]) -> str:
    return _joined([f"'{name}'" for name in names])


def _joined(parts: list[str]) -> str:
    return ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
