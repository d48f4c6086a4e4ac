"""Losses ℓ(y, η): dataclass pytrees whose numbers are leaves and whose link is a name. `Loss` says what one can do."""

from regjax.losses.binomial import Binomial, Logistic
from regjax.losses.cox import Cox
from regjax.losses.families import Gamma, InverseGaussian, NegativeBinomial, Poisson, Tweedie
from regjax.losses.multinomial import Multinomial
from regjax.losses.protocol import Loss
from regjax.losses.robust import Bisquare, Hampel, Huber, LogCosh, Lp, Quantile
from regjax.losses.squared import Gaussian, Squared

__all__ = [
    "Binomial",
    "Bisquare",
    "Cox",
    "Gamma",
    "Gaussian",
    "Hampel",
    "Huber",
    "InverseGaussian",
    "LogCosh",
    "Logistic",
    "Loss",
    "Lp",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Quantile",
    "Squared",
    "Tweedie",
]
