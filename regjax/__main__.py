"""The command line: `python -m regjax`, or the script `regjax`."""

import argparse
import io
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path

import jax

from regjax.command.run import demo, fit, predict_table
from regjax.command.table import BadTable


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run; 0, or 2 with a sentence on stderr if the arguments or the table are bad."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without λ and ± shows ? in their place
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    if not entry_points(group="jax_plugins"):  # on CPU compiling takes longer than fitting: leave out optimizations
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
    try:
        if options.command == "fit":
            fit(options.table, options.target, options.models, options.folds, options.out, options.drop)
        elif options.command == "predict":
            predict_table(options.model, options.table, options.out)
        else:
            demo(options.out, options.models)
    except BadTable as error:
        print(f"regjax: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="regjax", description="Regularized regression in JAX.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("fit", help="compare models on a table and keep the best")
    one.add_argument("table", type=Path, help="CSV with column names in the first line, or Parquet")
    one.add_argument("--target", required=True, help="the column to predict")
    one.add_argument("--models", default="all", help="such as lasso,ridge,gp (default: all that suit the target)")
    one.add_argument("--folds", type=int, default=10, help="of cross-validation (default: 10)")
    one.add_argument("--drop", default="", help="columns to leave out, with commas between them")
    one.add_argument("--out", type=Path, default=Path("report"), help="folder of the report (default: report)")
    two = commands.add_parser("predict", help="predict with a model of `regjax fit`")
    two.add_argument("model", type=Path, help="model.npz of a report")
    two.add_argument("table", type=Path, help="a table with the columns of the fit, in any order")
    two.add_argument("--out", type=Path, default=None, help="CSV to write (default: the terminal)")
    show = commands.add_parser("demo", help="`fit` on the bundled diabetes data")
    show.add_argument("--models", default="all", help="as of fit (default: all)")
    show.add_argument("--out", type=Path, default=Path("demo"), help="folder of the report (default: demo)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
