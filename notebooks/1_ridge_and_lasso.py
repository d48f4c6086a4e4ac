# %% [markdown]
# # Ridge, lasso and their paths
#
# Both minimise ½‖y − b − Xw‖² plus a penalty. Ridge adds (λ/2)‖w‖² and shrinks all coefficients together; the lasso
# adds λ‖w‖₁ and sets some of them to zero. A path shows the coefficients at every λ.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import regjax
from regjax import plot

jax.config.update("jax_enable_x64", True)

data = regjax.data.diabetes()
X = (data.X - data.X.mean(0)) / data.X.std(0)
print(data.X.shape, data.names)

# %% [markdown]
# A path is a `vmap` over λ; one eigendecomposition serves all ridge fits. For the lasso we cross-validate at once: each
# λ is tried on patients that the fit has not seen. The path on all patients comes with it, and every fit carries the
# proof of its accuracy: `gap` bounds how far its objective is from the optimum.

# %%
ridge_lams = jnp.logspace(0, 5, 80)
ridge = jax.vmap(lambda lam: regjax.ridge(X, data.y, lam))(ridge_lams)
lams = regjax.lam_grid(X, data.y)
cv = regjax.cross_validate(X, data.y, regjax.losses.Squared(), regjax.penalties.L1(lams), folds=10)
print(f"largest gaps: ridge {float(ridge.gap.max()):.0e}, lasso {float(cv.path.gap.max()):.0e}")

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
plot.plot_path(ridge, ridge_lams, names=data.names, ax=left).set_title("Ridge", loc="left", fontsize=14)
plot.plot_path(cv, names=data.names, ax=right).set_title("Lasso", loc="left", fontsize=14)

# %% [markdown]
# Which λ? The best of the curve, or the most regularised model within one standard error of it, which is often the
# one to report.

# %%
plot.plot_cross_validation(cv)

small = cv.at(cv.one_se).params
kept = [name for name, w in zip(data.names, small.coef, strict=True) if w != 0]
least, chosen = float(cv.mean[cv.best]), float(cv.mean[cv.one_se])
print(f"{len(kept)} of 10 measurements ({', '.join(kept)}): error {chosen:.0f}; the best of all: {least:.0f}")
