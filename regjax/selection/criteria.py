"""Information criteria: how well a model fits, less what its degrees of freedom would give anyway."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

from regjax.core.checks import check_strength
from regjax.core.node import register_node
from regjax.core.solution import Solution
from regjax.losses import Gaussian, Loss, Squared
from regjax.losses.protocol import weighted
from regjax.models.general import check_loss
from regjax.models.prepare import check_offset
from regjax.models.problem import Linear, check_samples, silence
from regjax.penalties import L1, strength_axes
from regjax.selection.cross_validate import Settings, Study, as_arrays
from regjax.selection.influence import Influence, along_path, influence_of, refuse_curved

NAMES = ("aic", "aicc", "bic", "ebic")


@register_node
@dataclass(frozen=True, eq=False)
class InformationCriteria:
    """Criteria of one fit, scalars, or of the L fits of a path, (L,): the smaller the better.

    Attributes:
        aic: 2k − 2 log L̂.
        aicc: AIC + 2k(k + 1)/(n − k − 1), for small samples; infinite where n ≤ k + 1.
        bic: k log n − 2 log L̂.
        ebic: BIC + 2γ log C(p, s), s of the p coefficients being not zero: for many columns.
        log_likelihood: log L̂, with the maximum likelihood dispersion.
        degrees_of_freedom: of the linear predictor, the intercept included.
        num_parameters: k: these, and 1 for a dispersion that is estimated (σ² of `Squared`), as in R.
        num_samples: n, those of positive weight.
    """

    aic: Array
    aicc: Array
    bic: Array
    ebic: Array
    log_likelihood: Array
    degrees_of_freedom: Array
    num_parameters: Array
    num_samples: Array

    def best(self, criterion: str = "bic") -> Array:
        """The index along the path of the least "aic", "aicc", "bic" or "ebic"."""
        if criterion not in NAMES:
            raise ValueError(f"criterion must be one of {', '.join(map(repr, NAMES))}, got {criterion!r}")
        return jnp.nanargmin(getattr(self, criterion)).astype(jnp.int32)


def information_criteria(
    X: Any,
    y: Any,
    loss: Loss,
    solution: Solution,
    penalties: Any = None,
    *,
    gamma: Any = 0.5,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
) -> InformationCriteria:
    r"""AIC, AICc, BIC and extended BIC of a fit, or of all fits of a path.

    The degrees of freedom are tr (ZᵀDZ + P″)⁻¹ZᵀDZ over the directions in which the penalty is smooth, with Z holding
    the intercept and D = diag(vℓ″): the rank of the active columns for the lasso, the trace of the smoother for ridge
    and the elastic net. Without a penalty all criteria are those of R's `AIC` and `BIC` for `lm` and `glm`, which
    count an estimated dispersion (statsmodels does not).

    Args:
        X, y, loss, weights, offset, lower, upper, intercept, standardize: as they were given to the fit. The loss is
            that of a likelihood: `Squared`, or a family of generalized linear models with one target.
        solution: of one fit, or of a `path` (L,).
        penalties: the penalty of the fit, or of the path; None for fits without a penalty, and for the lasso, whose
            strength makes no difference.
        gamma: γ of the extended BIC, from 0, where it is BIC, to 1.

    Returns:
        An `InformationCriteria`; `best("bic")` is an index along the path.

    Example:
        >>> import regjax
        >>> data = regjax.data.diabetes()
        >>> lams = regjax.lam_grid(data.X, data.y, num=30, standardize=True)
        >>> fits = regjax.lasso_path(data.X, data.y, lams, standardize=True)
        >>> criteria = regjax.information_criteria(data.X, data.y, regjax.losses.Squared(), fits, standardize=True)
        >>> best = criteria.best("bic")
        >>> print(criteria.bic.shape, int((fits.params.coef[best] != 0).sum()))
        (30,) 7

    References:
        Zou, Hastie & Tibshirani, On the degrees of freedom of the lasso, Ann. Stat. 35 (2007). Hurvich & Tsai,
        Biometrika 76 (1989). Chen & Chen, Extended Bayesian information criteria, Biometrika 95 (2008).
    """
    if not isinstance(solution, Solution) or not isinstance(solution.params, Linear):
        raise ValueError(f"solution takes what fit and path return, got {type(solution).__name__}")
    loss = Gaussian() if isinstance(loss, Squared) else loss
    if not hasattr(loss, "log_likelihood"):
        raise ValueError(f"information_criteria takes the loss of a likelihood, such as Poisson, got {loss!r}")
    refuse_curved(penalties)
    axes = jnp.ndim(solution.status)
    if axes > 1:
        raise ValueError(f"solution has {axes} axes of lanes: it takes one fit or a path (use jax.vmap for more)")
    samples = check_samples(X, y, weights)
    if not samples.single:
        raise ValueError(f"y has shape {samples.Y.shape}: information_criteria takes one target, (n,)")
    loss = check_loss(loss, samples)
    check_offset(offset, samples)
    gamma = check_strength("gamma", gamma, samples.X.dtype)
    if penalties is None:  # any strength: its support is what counts
        penalties = L1(jnp.ones_like(solution.objective))
    elif axes:
        lengths = {
            len(leaf)
            for leaf, axis in zip(*map(_entries, (penalties, strength_axes(penalties))), strict=True)
            if axis == 0
        }
        if lengths != {len(solution.status)}:
            raise ValueError(f"penalties has the lengths {sorted(lengths)}, but the path has {len(solution.status)}")
    settings = Settings(None, intercept, standardize, None, None)
    study = as_arrays(Study(X, y, loss, penalties, weights, offset, lower, upper, None))
    return _criteria(study, solution.params, gamma, settings=settings)


def _entries(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=lambda leaf: leaf is None)


@partial(jax.jit, static_argnames="settings")
def _criteria(study: Study, params: Linear, gamma: Array, *, settings: Settings) -> InformationCriteria:
    samples = check_samples(study.X, study.y, study.weights)
    loss: Any = study.loss
    y = samples.Y
    v = jnp.ones(len(y), y.dtype) if samples.weights is None else samples.weights
    y = silence(y, v)
    count = jnp.sum(v > 0)
    trials = count if loss.weights_are_precisions else jnp.sum(v)

    def fitted(at: Influence):
        eta = silence(at.eta, v)
        deviance = jnp.sum(weighted(v, loss.deviance(y, eta)))
        return at.degrees_of_freedom, loss.log_likelihood(y[:, 0], eta[:, 0], v, deviance / trials)

    if jnp.ndim(params.intercept):
        freedom, likelihood = along_path(fitted, samples, study, settings, params)
    else:
        freedom, likelihood = fitted(influence_of(samples, study, settings, study.penalties, params))
    k = freedom + (not loss.dispersion_known)
    n = count.astype(k.dtype)
    aic = 2 * k - 2 * likelihood
    left = n - k - 1
    aicc = aic + jnp.where(left > 0, 2 * k * (k + 1) / jnp.where(left > 0, left, 1), jnp.inf)
    bic = k * jnp.log(n) - 2 * likelihood
    p = float(samples.X.shape[1])
    lanes = jnp.shape(params.intercept)
    s = sum(jnp.sum((leaf != 0).reshape(*lanes, -1), axis=-1) for leaf in jax.tree.leaves(params.coef))
    choices = gammaln(p + 1) - gammaln(s + 1.0) - gammaln(p - s + 1)
    ebic = bic + 2 * gamma * choices
    return InformationCriteria(aic, aicc, bic, ebic, likelihood, freedom, k, count)
