"""abess: best subsets of every size by splicing, each from the one before.

It returns the model of one size only, the one that its criterion prefers: without a charge for columns, the largest. So
a path is timed as one call, and its models are fetched by a call for each size, once along the path and once alone,
whichever is better.
"""

import importlib.metadata

import numpy as np
from abess.linear import LinearRegression
from serve import serve


def fitted(X, y, sizes, threads):
    model = LinearRegression(support_size=sizes, ic_type="aic", ic_coef=0.0, thread=threads)
    return model.fit(X, y)


def loss(X, y, model):
    return np.sum((y - model.intercept_ - X @ model.coef_) ** 2)


def solve(X, y, alphas, threads, each):
    sizes = np.round(alphas * len(X)).astype(int)  # the sizes come in the place of λ
    if not each:
        fitted(X, y, sizes, threads)
        return np.zeros((len(sizes), X.shape[1]))
    coef = []
    for k in sizes:
        ways = fitted(X, y, np.arange(k + 1), threads), fitted(X, y, [k], threads)
        coef.append(min(ways, key=lambda model: loss(X, y, model)).coef_)
    return np.array(coef)


serve(solve, f"abess {importlib.metadata.version('abess')}")
