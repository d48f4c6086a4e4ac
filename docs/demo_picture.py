"""The picture of the README: the lasso path of the diabetes data, and its cross-validated error."""

from pathlib import Path

import jax
import matplotlib as mpl
import matplotlib.pyplot as plt

import regjax

jax.config.update("jax_enable_x64", True)
mpl.use("Agg")
data = regjax.data.diabetes()
X = (data.X - data.X.mean(0)) / data.X.std(0)
lams = regjax.lam_grid(X, data.y)
cv = regjax.cross_validate(X, data.y, regjax.losses.Squared(), regjax.penalties.L1(lams))
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
regjax.plot.plot_path(cv, lams, names=data.names, ax=left)
regjax.plot.plot_cross_validation(cv, ax=right)
figure.savefig(Path(__file__).with_name("demo.png"), dpi=80)
