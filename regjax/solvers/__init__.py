"""How ½‖Y − XW‖² + P(W) is minimised; every solver stops on the certificate."""

from regjax.solvers.admm import admm
from regjax.solvers.coordinate import coordinate_descent
from regjax.solvers.engine import working_set
from regjax.solvers.proximal import fista, ista

__all__ = ["admm", "coordinate_descent", "fista", "ista", "working_set"]
