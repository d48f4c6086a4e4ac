# %% [markdown]
# # Kernels and Gaussian processes
#
# A kernel k(x, z) says how alike two inputs are. Kernels add and multiply, so that what is known of a series can be
# written down: CO₂ at Mauna Loa is a smooth rise plus a yearly cycle whose shape drifts.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import regjax
from regjax import kernels, plot

jax.config.update("jax_enable_x64", True)

co2 = regjax.data.co2()
t, y = co2.X[::10, 0], co2.y[::10]  # every tenth week
train = t < 1996
mean = float(y[train].mean())
print(f"{int(train.sum())} weeks to 1996 to learn from, {int((~train).sum())} after it to predict")

# %% [markdown]
# The hyperparameters are leaves of the kernel, and the marginal likelihood of the data has a gradient in all of them.

# %%
kernel = (
    2000.0 * kernels.RBF(40.0)  # the rise
    + 5.0 * kernels.Periodic(1.3, 1.0) * kernels.RBF(60.0)  # the year
    + 0.5 * kernels.RationalQuadratic(1.2, 0.8)  # what comes and goes
)
start = regjax.gp(kernel, t[train], y[train] - mean, 0.1)
fit = regjax.gp_fit(kernel, t[train], y[train] - mean, 0.1, restarts=1, max_iter=15)
process = fit.params
print(f"log likelihood {float(start.log_marginal_likelihood):.0f} → {float(process.log_marginal_likelihood):.0f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
Z = jnp.linspace(1990, 2002, 500)
plot.plot_gp(process, Z, noise=True, ax=left)
left.plot(t[~train], y[~train] - mean, "x", color="#D55E00", label="not seen")
left.set(xlim=(1990, 2002), ylim=(10, 40), xlabel="year", ylabel=f"CO₂ − {mean:.0f} ppm")
left.set_title("Six years ahead", loc="left", fontsize=14)
left.legend(loc="upper left", fontsize=11)

few = regjax.gp(kernels.Matern52(1.5), jnp.array([0.0, 1.0, 2.5, 6.0]), jnp.array([0.0, 0.8, 0.4, -0.9]), 1e-4)
plot.plot_gp(few, jnp.linspace(-1, 8, 300), samples=4, ax=right)
right.set_title("Four points, and functions through them", loc="left", fontsize=14)

# %% [markdown]
# The band is a promise: 95% of what was not seen should be inside of it.

# %%
low, high = process.interval(t[~train], 0.95, noise=True)
seen = y[~train] - mean
error = float(jnp.sqrt(jnp.mean((process(t[~train]) - seen) ** 2)))
inside = float(jnp.mean((low <= seen) & (seen <= high)))
line = np.polyfit(t[train], y[train] - mean, 2)
naive = float(np.sqrt(np.mean((np.polyval(line, t[~train]) - seen) ** 2)))
print(f"error over six years: {error:.2f} ppm ({naive:.2f} for a parabola); {100 * inside:.0f}% inside the 95% band")
