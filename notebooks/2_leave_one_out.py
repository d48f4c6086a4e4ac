# %% [markdown]
# # λ for free, and leave-one-out
#
# Ridge at λ is (XᵀX + λI)⁻¹Xᵀy. With one eigendecomposition of XᵀX every further λ costs next to nothing, and so does
# the error on each sample by the fit that has not seen it: eᵢ = rᵢ/(1 − hᵢᵢ), with no refit at all.

# %%
import time

import jax
import jax.numpy as jnp

import regjax
from regjax import plot

jax.config.update("jax_enable_x64", True)

data = regjax.data.make_regression(jax.random.key(0), 200, 120, noise=10.0)
X, y = data.X, data.y
lams = jnp.logspace(-2, 4, 100)


def timed(function, *args):
    function = jax.jit(function)
    jax.block_until_ready(function(*args))  # compiles
    start = time.perf_counter()
    return jax.block_until_ready(function(*args)), time.perf_counter() - start


# %% [markdown]
# One fit, and then one hundred with all of their 20,000 leave-one-out errors:

# %%
one, seconds_one = timed(lambda lam: regjax.ridge(X, y, lam).params, lams[50])
scores, seconds_all = timed(jax.vmap(lambda lam: regjax.loo_score(X, y, lam)), lams)
print(f"one fit: {1e3 * seconds_one:.2f} ms; 100 λ and 20,000 leave-one-out errors: {1e3 * seconds_all:.2f} ms")
plot.plot_leave_one_out(scores, lams)

# %% [markdown]
# Is it exact? Leave each sample out for real: a sample left out is a sample of weight zero, so that 200 refits are one
# `vmap` over weights.

# %%
best = lams[scores.argmin()]
refits = jax.vmap(lambda v: regjax.ridge(X, y, best, weights=v).params(X))(1 - jnp.eye(len(y)))
brute = jnp.mean((y - jnp.diag(refits)) ** 2)
difference = float(abs(brute - scores.min()) / brute)
print(f"200 refits: {float(brute):.6f}; formula: {float(scores.min()):.6f}; relative difference {difference:.0e}")

# %% [markdown]
# A score that is a function of λ has a derivative, so that the minimum can be found between the points of the grid:
# where the slope changes its sign.

# %%
slope = jax.jit(jax.grad(lambda log_lam: regjax.loo_score(X, y, jnp.exp(log_lam))))
i = int(scores.argmin())
low, high = jnp.log(lams[i - 1]), jnp.log(lams[i + 1])
for _ in range(40):
    middle = (low + high) / 2
    low, high = (middle, high) if slope(middle) < 0 else (low, middle)
print(
    f"by grid: λ = {float(best):.3f}; by gradient: λ = {float(jnp.exp(middle)):.6f}, slope {float(slope(middle)):.0e}"
)
