# %% [markdown]
# # A thousand fits in one call
#
# Everything that varies is an axis. A fold is a vector of 0/1 weights, a bootstrap sample one of counts, a smaller data
# set one with zeros at its end: so all of them are `vmap` over weights, and λ is one axis more.

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import regjax

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# Twenty data sets × five folds × fifty λ: 5000 ridge fits and their errors, in one compiled call.

# %%
lams = jnp.logspace(-1, 4, 50)
sets = jax.vmap(lambda key: regjax.data.make_regression(key, 100, 30, noise=4.0))(
    jax.random.split(jax.random.key(0), 20)
)
train = regjax.selection.splits.k_folds(100, 5).train.astype(float)


@jax.jit
def errors(X, y):
    def one(X, y, v, lam):
        model = regjax.ridge(X, y, lam, weights=v).params
        return jnp.sum((1 - v) * (y - model(X)) ** 2) / jnp.sum(1 - v)

    over_lams = jax.vmap(one, (None, None, None, 0))
    over_folds = jax.vmap(over_lams, (None, None, 0, None))
    return jax.vmap(over_folds, (0, 0, None, None))(X, y, train, lams)


jax.block_until_ready(errors(sets.X, sets.y))  # compiles
start = time.perf_counter()
table = jax.block_until_ready(errors(sets.X, sets.y))
seconds = time.perf_counter() - start
print(f"{table.size} fits of {sets.X.shape[1:]} in {1e3 * seconds:.0f} ms: {1e6 * seconds / table.size:.0f} µs each")

curves = np.asarray(table.mean(1))  # over folds
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.loglog(lams, curves.T, color="#56B4E9", linewidth=1, alpha=0.7)
ax.loglog(lams, curves.mean(0), color="#0072B2", linewidth=3, label="mean of all")
ax.loglog(lams[curves.argmin(1)], curves.min(1), "o", color="#D55E00", label="least of each data set")
ax.set_xlabel("penalty strength λ", fontsize=13)
ax.set_ylabel("error of cross-validation", fontsize=13)
ax.set_title("Twenty data sets of the same kind", loc="left", fontsize=14)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(fontsize=11)
chosen = lams[curves.argmin(1)]
print(f"the λ that cross-validation chooses: from {float(chosen.min()):.2g} to {float(chosen.max()):.2g}")

# %% [markdown]
# How sure is a selection? One thousand bootstrap samples of the diabetes data, one thousand lassos, each certified.

# %%
data = regjax.data.diabetes()
X = (data.X - data.X.mean(0)) / data.X.std(0)
n = len(data.y)
draws = jax.random.randint(jax.random.key(1), (1000, n), 0, n)
counts = jax.vmap(lambda rows: jnp.bincount(rows, length=n).astype(float))(draws)
fits = jax.vmap(lambda v: regjax.lasso(X, data.y, 1000.0, weights=v))(counts)
share = jnp.mean(fits.params.coef != 0, axis=0)
print(f"converged: {int(fits.converged.sum())} of 1000, largest gap {float(fits.gap.max()):.0e}")

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
order = np.argsort(share)
ax.barh(np.asarray(data.names)[order], 100 * share[order], color="#0072B2")
ax.set_xlabel("selected in % of 1000 bootstrap samples", fontsize=13)
ax.set_title("The lasso at λ = 1000", loc="left", fontsize=14)
ax.spines[["top", "right"]].set_visible(False)
print("always there:", [name for name, s in zip(data.names, share, strict=True) if s > 0.99])
