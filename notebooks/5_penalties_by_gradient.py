# %% [markdown]
# # Tuning penalties by gradient
#
# A grid over one λ is easy, a grid over forty is not. But the exact leave-one-out error is a differentiable function of
# all of them, and one gradient costs about as much as one fit.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import regjax

jax.config.update("jax_enable_x64", True)

n, p, useful = 120, 40, 6
keys = jax.random.split(jax.random.key(3), 3)
truth = jnp.where(jnp.arange(p) < useful, 2.0, 0.0)
X, X_new = jax.random.normal(keys[0], (n, p)), jax.random.normal(keys[1], (2000, p))
y = X @ truth + 4 * jax.random.normal(keys[2], (n,))

# %% [markdown]
# Ridge with a strength λⱼ for each column is ridge with λ = 1 on columns divided by √λⱼ. First one λ for all,
# by a grid:


# %%
def error(lams):
    return regjax.loo_score(X / jnp.sqrt(lams), y, 1.0)


grid = jnp.logspace(-1, 4, 60)
curve = jax.vmap(lambda lam: error(jnp.full(p, lam)))(grid)
shared = grid[curve.argmin()]

# %% [markdown]
# From there `regjax.tune` goes downhill in all forty, by BFGS on their logarithms. The objective may be any error that
# is computed from fits: on a holdout, by cross-validation, or a likelihood. A few steps do: at the very bottom forty λ
# begin to fit the noise of the error itself.

# %%
found = regjax.tune(error, jnp.full(p, shared), max_iter=15)
lams = found.params
print(f"leave-one-out error {curve.min():.2f} → {found.objective:.2f} in {found.num_iter} evaluations")

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
left.semilogx(grid, curve, color="#0072B2", linewidth=2.2, label="one λ for all columns")
left.semilogx(shared, curve.min(), "o", color="#0072B2", markersize=9)
left.axhline(float(found.objective), color="#D55E00", linestyle="--", linewidth=2, label="forty λ, by gradient")
left.set_xlabel("penalty strength λ", fontsize=13)
left.set_ylabel("exact leave-one-out error", fontsize=13)
left.set_title("Forty penalties at once", loc="left", fontsize=14)
columns = np.arange(p)
for rows, colour, label in ((columns < useful, "#D55E00", "in the truth"), (columns >= useful, "#0072B2", "not in it")):
    right.semilogy(columns[rows], lams[rows], "o", color=colour, markersize=8, label=label)
right.axhline(float(shared), color="0.4", linestyle="--", label="the best shared λ")
right.set_xlabel("column", fontsize=13)
right.set_ylabel("penalty strength λ", fontsize=13)
right.set_title("What the data says of each column", loc="left", fontsize=14)
for ax in (left, right):
    ax.legend(fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)


# %% [markdown]
# On new data, the excess error over the truth:


# %%
def excess(lams):
    model = regjax.ridge(X / jnp.sqrt(lams), y, 1.0).params
    return float(jnp.mean((model(X_new / jnp.sqrt(lams)) - X_new @ truth) ** 2))


one, many = excess(jnp.full(p, shared)), excess(lams)
print(f"excess error on new data: {one:.2f} with one λ, {many:.2f} with forty: {100 * (1 - many / one):.0f}% less")
