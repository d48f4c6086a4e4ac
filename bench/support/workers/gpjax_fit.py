"""GPJax: exact marginal likelihood by its `fit_scipy`, compiled in a first fit, timed in a second."""

import json
import sys
import time
from pathlib import Path

import gpjax as gpx
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
folder = Path(sys.argv[1])
X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
data = gpx.Dataset(X=jnp.asarray(X), y=jnp.asarray(y)[:, None])


def fit():
    kernel = gpx.kernels.RBF(lengthscale=jnp.ones(X.shape[1]), variance=1.0, n_dims=X.shape[1])
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    likelihood = gpx.likelihoods.Gaussian(obs_stddev=jnp.sqrt(0.1))
    objective = lambda model, data: -gpx.objectives.conjugate_mll(model, data)  # noqa: E731
    model, _ = gpx.fit_scipy(model=prior * likelihood, objective=objective, train_data=data, verbose=False)
    return model


fit()
start = time.perf_counter()
model = fit()
seconds = time.perf_counter() - start
kernel = model.prior.kernel


def value(parameter):
    """The number in a parameter, in whatever it is wrapped."""
    for name in ("unwrap", "value"):
        if hasattr(parameter, name):
            inner = getattr(parameter, name)
            parameter = inner() if callable(inner) else inner
    return np.asarray(parameter, float)


reply = {
    "seconds": seconds,
    "variance": float(value(kernel.variance)),
    "scales": value(kernel.lengthscale).ravel().tolist(),
    "noise": float(value(model.likelihood.obs_stddev)) ** 2,
}
(folder / "reply.json").write_text(json.dumps(reply))
