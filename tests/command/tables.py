"""Small tables for the tests of the command line."""

import csv

import numpy as np


def write(path, header, rows, separator=","):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([header, *rows])
    return path


def houses(num=60):
    """Names and rows: two columns of numbers, one of three towns, one of two answers, one that is constant."""
    rng = np.random.default_rng(0)
    towns, gardens = rng.choice(["Bergen", "Oslo", "Trondheim"], num), rng.choice(["no", "yes"], num)
    area, rooms = rng.uniform(30, 200, num).round(1), rng.integers(1, 7, num)
    price = 2 * area + 15 * rooms + 80 * (towns == "Oslo") + 20 * (gardens == "yes") + rng.normal(size=num) * 20
    columns = zip(area.tolist(), rooms.tolist(), towns, gardens, [7] * num, price.round(2).tolist(), strict=True)
    return ["area", "rooms", "town", "garden", "floor", "price"], [list(row) for row in columns]
