"""Tables are read and encoded as numpy would, and bad ones get a sentence that names what is wrong."""

import errno
import os

import numpy as np
import pandas as pd
import pytest

from regjax.__main__ import main
from regjax.command.contest import choose_models, pose
from regjax.command.models import CANDIDATES
from regjax.command.table import BadTable, encode, feature_names, learn_encoding, read_table, read_target
from tests.command.tables import houses, write

pytestmark = pytest.mark.once


def changed(**cells):
    """The table of houses with other cells in its first rows: `area=["", "12"]`."""
    header, rows = houses()
    for name, values in cells.items():
        for row, value in zip(rows, values, strict=False):
            row[header.index(name)] = value
    return header, rows


def test_encoding_standardises_numbers_and_categories(tmp_path):
    header, rows = houses()
    table = read_table(write(tmp_path / "houses.csv", header, rows))
    encoding, notes = learn_encoding(table, "price")
    assert feature_names(encoding) == ["area", "rooms", "town=Bergen", "town=Oslo", "town=Trondheim", "garden=yes"]
    assert notes == ["'floor' is left out: it is 7 in every row"]
    X = encode(table, encoding)
    np.testing.assert_allclose(X.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(0), 1)
    area, oslo = np.array([row[0] for row in rows]), np.array([row[2] == "Oslo" for row in rows])
    np.testing.assert_allclose(X[:, 0], (area - area.mean()) / area.std())
    np.testing.assert_allclose(X[:, 3], (oslo - oslo.mean()) / oslo.std())
    np.testing.assert_allclose(read_target(table, "price"), [row[-1] for row in rows])


def test_separators_and_the_order_of_columns_do_not_matter(tmp_path):
    header, rows = houses()
    table = read_table(write(tmp_path / "comma.csv", header, rows))
    encoding, _ = learn_encoding(table, "price")
    turned = write(tmp_path / "semicolon.csv", header[::-1], [row[::-1] for row in rows], ";")
    turned.write_bytes(b"\xef\xbb\xbf" + turned.read_bytes().replace(b"\r\n", b"\n") + b"\n")
    np.testing.assert_array_equal(encode(read_table(turned), encoding), encode(table, encoding))


def test_a_column_that_names_its_rows_is_left_out(tmp_path):
    header, rows = houses()
    named = write(tmp_path / "named.csv", ["id", *header], [[f"house {i}", *row] for i, row in enumerate(rows)])
    encoding, notes = learn_encoding(read_table(named), "price")
    assert "'id' is left out: 60 different texts in 60 rows" in notes
    assert "id" not in [column["column"] for column in encoding]


HEADER, ROWS = houses()
BAD = {
    "text among numbers": (
        *changed(area=[1, "big", "huge"]),
        "'area' is numbers, but 2 rows are text, such as 'big' in line 3",
    ),
    "decimal commas": (
        *changed(area=[f"{k},5" for k in range(60)]),
        "'area' has numbers with a comma, such as '0,5' in line 2",
    ),
    "thousands": (
        *changed(area=[f"1,{k:03}.5" for k in range(60)]),
        "'area' has numbers with a comma, such as '1,000.5' in line 2",
    ),
    "tiny target": (
        HEADER,
        [[*row[:-1], f"{row[-1]}e-166"] for row in ROWS],
        "'price' has values so large or so small",
    ),
    "empty cells": (
        *changed(area=[""], rooms=["NaN", "n/a"]),
        "empty cells or NaN in 'area' (1 of 60), 'rooms' (2 of 60)",
    ),
    "empty target": (*changed(price=["", "NA"]), "has empty cells or NaN in 'price' (2 of 60)"),
    "text target": (*changed(price=["dear"]), "'price' takes numbers, but 1 row is text, such as 'dear' in line 2"),
    "constant target": (HEADER, [[*row[:-1], 3] for row in ROWS], "the target 'price' is 3 in every row"),
    "no target": ([*HEADER[:-1], "prices"], ROWS, "has no column 'price': did you mean 'prices'?"),
    "no rows": (HEADER, [], "has column names but no rows"),
    "twice": (["area", "area", *HEADER[2:]], ROWS, "has more than one column named 'area'"),
    "no name": (["", *HEADER[1:]], ROWS, "column 1 has no name"),
    "ragged": (HEADER, [*ROWS[:4], ROWS[4][:-1], *ROWS[5:]], "line 6 has 5 cells, but there are 6 column names"),
    "infinite": (*changed(rooms=["inf"]), "the column 'rooms' is infinite in line 2"),
    "tiny": (HEADER, [[f"{row[0]}e-200", *row[1:]] for row in ROWS], "'area' has values so large or so small"),
    "huge": (HEADER, [[*row[:-1], f"{row[-1]}e300"] for row in ROWS], "'price' has values so large or so small"),
    "alone": (["price"], [row[-1:] for row in ROWS], "has no column to predict 'price' from"),
    "too few rows": (HEADER, ROWS[:4], "--folds 10 takes from 2 to the number of rows, 4"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_get_one_sentence_and_code_2(name, tmp_path, capsys):
    header, rows, sentence = BAD[name]
    path = write(tmp_path / "houses.csv", header, rows)
    assert main(["fit", str(path), "--target", "price", "--out", str(tmp_path / "report")]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.startswith("regjax: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "report").exists()


def test_separators_within_quotes_separate_nothing(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('"a;b;c;d",price\n1,2\n3,4\n')
    assert read_table(path).columns == {"a;b;c;d": ["1", "3"], "price": ["2", "4"]}
    path.write_text("\n\na;price\n1;2\n3;4\n")
    assert read_table(path).columns == {"a": ["1", "3"], "price": ["2", "4"]}


def test_bad_files_get_a_sentence(tmp_path):
    path = tmp_path / "table.csv"
    with pytest.raises(BadTable, match="there is no such file"):
        read_table(path)
    path.write_text("")
    with pytest.raises(BadTable, match="is empty"):
        read_table(path)
    path.write_bytes("a,b\n1,æ\n".encode("latin1"))
    with pytest.raises(BadTable, match="is not text in UTF-8"):
        read_table(path)
    parquet = tmp_path / "table.parquet"
    parquet.write_bytes(b"PAR1")
    with pytest.raises(BadTable, match=r"Parquet"):
        read_table(parquet)


def test_parquet_is_read_as_csv_is(tmp_path):
    cities = pd.Categorical(["Bonn", "Köln", "Bonn"])
    frame = pd.DataFrame({"size": [50, 75, 60], "city": cities, "new": [1.5, None, 2]})
    frame.to_parquet(tmp_path / "table.parquet")
    columns = read_table(tmp_path / "table.parquet").columns
    assert columns == {"size": ["50", "75", "60"], "city": ["Bonn", "Köln", "Bonn"], "new": ["1.5", "", "2.0"]}
    frame.to_csv(tmp_path / "table.csv", index=False)
    assert read_table(tmp_path / "table.csv").columns == columns
    frame[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(BadTable, match="no rows"):
        read_table(tmp_path / "none.parquet")


def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path, monkeypatch):
    def refuse(path, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = write(tmp_path / "table.csv", HEADER, ROWS)
    with monkeypatch.context() as patch:  # which ends before pytest itself opens files
        patch.setattr("pathlib.Path.open", refuse)
        with pytest.raises(BadTable, match=r"table.csv cannot be read: Permission denied"):
            read_table(path)


def test_models_are_chosen_by_the_kind_of_the_target():
    X, rng = np.ones((50, 1)), np.random.default_rng(0)
    classes, counts, numbers = rng.integers(0, 2, 50), rng.integers(0, 9, 50), rng.normal(size=50)
    for y, kind in ((classes, "classes"), (counts, "counts"), (numbers, "numbers"), (counts + 1, "numbers")):
        problem = pose(X, y.astype(float), 5)
        assert problem.kind == kind
        models, notes = choose_models("all", problem)
        assert list(models) == [name for name, model in CANDIDATES.items() if kind in model.kinds]
        assert not notes
    with pytest.raises(BadTable, match="there is no model 'laso': did you mean 'lasso'"):
        choose_models("ridge,laso", problem)
    with pytest.raises(BadTable, match="'logistic_lasso' is for targets that are 0 and 1, this one is numbers"):
        choose_models("logistic_lasso", problem)
    with pytest.raises(BadTable, match="--models takes names"):
        choose_models(" , ", problem)
    large = pose(np.ones((1500, 1)), np.arange(1500.0), 5)
    models, (note,) = choose_models("all", large)
    assert "gp" not in models
    assert note.startswith("kernel_ridge, gp: left out")
    assert "gp" in choose_models("gp", large)[0]
