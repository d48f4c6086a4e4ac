"""`python -m regjax demo`: ridge on the bundled diabetes data, with its exact leave-one-out curve."""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp

import regjax


def demo(folder: Path) -> None:
    """OLS, the ridge path over 100 λ with its exact leave-one-out error in one compiled call, a table and a picture."""
    jax.config.update("jax_enable_x64", True)
    data = regjax.data.diabetes()
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    lams = jnp.logspace(-2, 5, 100)

    @jax.jit
    def path(X, y, lams):
        return jax.vmap(lambda lam: (regjax.ridge(X, y, lam), regjax.loo_score(X, y, lam)))(lams)

    start = time.perf_counter()
    compiled = path.lower(X, data.y, lams).compile()
    compile_seconds = time.perf_counter() - start
    start = time.perf_counter()
    fits, scores = jax.block_until_ready(compiled(X, data.y, lams))
    seconds = time.perf_counter() - start
    regjax.check(fits)

    ols = regjax.check(regjax.ols(X, data.y))
    result = regjax.inference(X, data.y, ols)
    best = int(scores.argmin())
    ridge = jax.tree.map(lambda a: a[best], fits)
    print(f"diabetes: {X.shape[0]} patients, {X.shape[1]} standardised columns, target: progression after one year\n")
    print(f"{'column':>8} {'OLS':>9} {'± SE':>8} {'ridge':>9}")
    for j, name in enumerate(data.names):
        error = result.standard_errors.coef[j]
        print(f"{name:>8} {ols.params.coef[j]:9.3f} {error:8.3f} {ridge.params.coef[j]:9.3f}")
    print(f"\n{'λ':>11} {'exact leave-one-out MSE':>24} {'gap':>9}")
    for i in sorted({*range(0, 100, 14), best}):
        mark = "  <- chosen" if i == best else ""
        print(f"{lams[i]:11.4g} {scores[i]:24.2f} {fits.gap[i]:9.1e}{mark}")
    print(f"\nOLS leave-one-out MSE {float(regjax.loo_score(X, data.y, 0.0)):.2f}, R² {float(result.r_squared):.3f}")
    print(
        f"100 ridge fits and 44,200 leave-one-out errors: {1e3 * seconds:.1f} ms (compiled in {compile_seconds:.1f} s)"
    )
    _draw(folder, lams, fits.params.coef, scores, data.names, float(lams[best]))


def _draw(folder, lams, coefs, scores, names, chosen):
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed (pip install regjax[plot])")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from regjax import plot

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    plot.plot_path(coefs, lams, names=names, chosen=chosen, ax=left)
    plot.plot_leave_one_out(scores, lams, ax=right)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "ridge_path.png"
    figure.savefig(target, dpi=130)
    plt.close(figure)
    print(f"picture: {target}")


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="regjax", description="Regularized regression in JAX.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("demo", help="ridge regression on the bundled diabetes data")
    show.add_argument("--out", type=Path, default=Path("demo"), help="folder of the picture (default: demo)")
    options = parser.parse_args(arguments)
    demo(options.out)


if __name__ == "__main__":
    main()
