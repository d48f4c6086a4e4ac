"""How a loss plus a penalty is minimised; every solver stops on the certificate.

The first group is for ½‖Y − XW‖² + P(W), the second for any other loss.
"""

from regjax.solvers.accelerated import accelerated
from regjax.solvers.admm import admm
from regjax.solvers.coordinate import coordinate_descent
from regjax.solvers.engine import working_set
from regjax.solvers.interior_point import interior_point
from regjax.solvers.newton import newton
from regjax.solvers.proximal import fista, ista
from regjax.solvers.proximal_newton import proximal_newton
from regjax.solvers.reweighted import irls
from regjax.solvers.splitting import splitting

__all__ = [
    "accelerated",
    "admm",
    "coordinate_descent",
    "fista",
    "interior_point",
    "irls",
    "ista",
    "newton",
    "proximal_newton",
    "splitting",
    "working_set",
]
