"""Every penalty is a row of one table and inherits the tests of prox, conjugate, slack, tangent and derivatives."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import isotonic_regression, linprog

from regjax import penalties
from regjax.core.tree import ravel_design
from regjax.penalties import (
    L1,
    L2,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    Group,
    L1Ball,
    L2Ball,
    Limited,
    LimitedBall,
    LimitedBlocks,
    LimitedSlope,
    LimitedVariation,
    MultiTask,
    NonNegative,
    PlusL2,
    Slope,
    SparseGroup,
    SparseVariation,
    Tikhonov,
    TotalVariation,
    Zero,
    is_valid,
    limit,
    ravel_penalty,
    scale_strengths,
    strength_axes,
)
from tests.problems import assert_close, tolerance

P = 12
RNG = np.random.default_rng(0)
FACTORS = np.where(np.arange(P) == 2, 0.0, np.where(np.arange(P) == 5, np.inf, RNG.uniform(0.5, 2.0, P)))
LOWER = -RNG.uniform(0.2, 1.0, P) * (np.arange(P) % 3 != 0)
UPPER = np.where(np.arange(P) % 4 == 0, np.inf, RNG.uniform(0.0, 1.5, P))
KEPT = ~np.isin(np.arange(P), (1, 8))  # the others hold a stretch between free jumps each
GROUPS = [0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4]
GROUP_FACTORS = np.array([0.7, 0.0, 1.0, np.inf, 1.5])
RIDGE = np.array([0.4, 0.0, 2.0, 0.4, 0.0])[GROUPS][:, None]  # none in some groups
MATRIX = RNG.normal(size=(P + 1, P))
DIFFERENCES = np.diff(np.eye(P), axis=0)
DECAY = np.linspace(2.0, 0.2, P)


class Row(NamedTuple):
    """A row of the table: `make(c)` is the penalty at strength c."""

    make: Callable
    has_strength: bool = True  # whether dual_norm is a finite number
    per_column: bool = True
    once: bool = False  # a variant of another row, for the float64 run only


TABLE = {
    "Zero": Row(lambda c: Zero(), has_strength=False, once=True),
    "L1": Row(lambda c: L1(c, FACTORS)),
    "L2": Row(lambda c: L2(c, FACTORS), has_strength=False),
    "ElasticNet": Row(lambda c: ElasticNet(c, 0.5, FACTORS)),
    "Tikhonov": Row(lambda c: Tikhonov(c, DIFFERENCES), has_strength=False),
    "Group": Row(lambda c: Group(c, GROUPS), once=True),
    "Group, factors": Row(lambda c: Group(c, tuple(GROUPS), GROUP_FACTORS)),
    "SparseGroup": Row(lambda c: SparseGroup(0.6 * c, 0.5 * c, GROUPS, GROUP_FACTORS)),
    "PlusL2": Row(lambda c: PlusL2(Group(c, GROUPS), RIDGE), once=True),
    "MultiTask": Row(lambda c: MultiTask(c, FACTORS), per_column=False),
    "MCP": Row(lambda c: MCP(c, 2.0, FACTORS)),
    "SCAD": Row(SCAD, once=True),
    "Slope": Row(lambda c: Slope(c * DECAY, FACTORS)),
    "Slope without factors": Row(lambda c: Slope(c * DECAY), once=True),
    "TotalVariation": Row(lambda c: TotalVariation(c, FACTORS[:-1])),
    "SparseVariation": Row(lambda c: SparseVariation(0.5 * c, c, FACTORS[:-1])),
    "Limited Slope": Row(lambda c: LimitedSlope(Slope(1.35 * c * DECAY, FACTORS), LOWER, UPPER)),
    "Limited Slope, one side": Row(lambda c: LimitedSlope(Slope(c * DECAY), 0.0), once=True),
    "Limited TotalVariation": Row(
        lambda c: LimitedVariation(TotalVariation(c, FACTORS[:-1]), KEPT * LOWER, np.where(KEPT, UPPER, 0))
    ),
    "Limited TotalVariation, one side": Row(
        lambda c: LimitedVariation(TotalVariation(c), -0.5), has_strength=False, once=True
    ),
    "L1Ball": Row(lambda c: L1Ball(2 * c, FACTORS), has_strength=False),
    "L2Ball": Row(L2Ball, has_strength=False),
    "L2Ball, factors": Row(lambda c: L2Ball(c, FACTORS), has_strength=False, once=True),
    "Limited L1Ball": Row(lambda c: LimitedBall(L1Ball(2 * c, FACTORS), LOWER, UPPER), has_strength=False),
    "Limited L2Ball": Row(lambda c: LimitedBall(L2Ball(c, FACTORS), LOWER, UPPER), has_strength=False, once=True),
    "Box": Row(lambda c: Box(-c, jnp.where(UPPER < 1, UPPER + 0.1, jnp.inf), FACTORS), has_strength=False),
    "Box without 0": Row(lambda c: Box(0.5 * c, 2.0), has_strength=False, once=True),
    "NonNegative": Row(lambda c: NonNegative(FACTORS), has_strength=False, once=True),
    "Limited L1": Row(lambda c: Limited(L1(c, FACTORS), LOWER, UPPER)),
    "Limited L1, one side": Row(lambda c: Limited(L1(c), 0.0), once=True),
    "Limited ElasticNet": Row(lambda c: Limited(ElasticNet(c, 0.5), LOWER, UPPER), once=True),
    "Limited MCP": Row(lambda c: Limited(MCP(c), LOWER, UPPER), once=True),
    "Limited Group": Row(lambda c: LimitedBlocks(Group(c, GROUPS, [0.7, 0.8, 1.0, np.inf, 1.5]), LOWER, UPPER)),
    "Limited SparseGroup": Row(lambda c: LimitedBlocks(SparseGroup(0.6 * c, 0.5 * c, GROUPS), LOWER, UPPER), once=True),
    "Limited MultiTask": Row(lambda c: LimitedBlocks(MultiTask(c, FACTORS), LOWER, UPPER), per_column=False, once=True),
    "Limited SCAD": Row(lambda c: Limited(SCAD(c), LOWER, UPPER), once=True),
}
SHAPE = (P, 3)
STRENGTH, STEP = 0.6, 0.7
LANES = 40

QUICKLY: dict[str, Any] = {"xla_backend_optimization_level": 0}  # compiling is what takes time here


def rows_where(condition):
    marks = {True: pytest.mark.once, False: ()}
    names = [name for name, row in TABLE.items() if condition(row)]
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[TABLE[name].once]) for name in names])


rows = rows_where(lambda row: True)
convex_rows = rows_where(lambda row: row.make(1.0).convex)


def draws(count, shape, seed=1, scale=2.0):
    return np.asarray(jnp.asarray(scale * np.random.default_rng(seed).normal(size=(count, *shape))))


def inner(a, b):
    """Inner products of the arrays along the first axis."""
    return np.sum((a * b).reshape(len(a), -1), axis=1)


@cache
def compiled(name):
    """Every method of a row at once, over lanes of strengths, points, dual points and steps.

    One program per row, which all tests call, and which is kept when the caches are cleared.
    """

    def methods(c, w, z, step):
        penalty = TABLE[name].make(c)
        gradient = jax.grad(penalty.value)
        u, pull = jax.vjp(lambda c, w, step: TABLE[name].make(c).prox(w, step), c, w, step)
        found = {
            "value": penalty.value(w),
            "gradient": gradient(w),
            "curvature": jax.jvp(gradient, (w,), (z,))[1],
            "prox": u,
            "pulled": pull(z),
            "distance": penalty.distance(w, z),
            "tangent": penalty.tangent(w, z),
            "free": penalty.free(w),
            "unpenalised": penalty.unpenalised(z),
        }
        if penalty.convex:
            found |= {
                "slack": penalty.slack(w, z),
                "conjugate": penalty.conjugate(z),
                "dual scale": penalty.dual_scale(z),
            }
        if TABLE[name].has_strength:
            found["dual norm"] = penalty.dual_norm(z)
        return found

    dtype = jnp.result_type(float)
    number, array = jax.ShapeDtypeStruct((LANES,), dtype), jax.ShapeDtypeStruct((LANES, *SHAPE), dtype)
    lowered = jax.jit(jax.vmap(methods)).lower(number, array, array, number)
    return lowered.compile(compiler_options=QUICKLY)


def call(name, w, z=None, c: Any = STRENGTH, step: Any = STEP):
    """The methods at points w (lanes, p, t), with the lanes filled up."""
    z = w if z is None else z
    count, dtype = len(w), jnp.result_type(float)
    lanes = np.arange(LANES) % count
    c, step = (np.broadcast_to(np.asarray(a, dtype), (count,))[lanes] for a in (c, step))
    found = compiled(name)(c, np.asarray(w, dtype)[lanes], np.asarray(z, dtype)[lanes], step)
    return jax.tree.map(lambda a: np.asarray(a)[:count], found)


@cache
def pairs(name):
    """Points x of several sizes, u = prox(x) and z = (x − u)/step ∈ ∂P(u), with all methods at (u, z)."""
    x = draws(5, SHAPE) * np.array([0.2, 0.5, 1.0, 2.0, 5.0])[:, None, None]
    u = call(name, x)["prox"]
    z = (np.asarray(x, u.dtype) - u) / np.asarray(STEP, u.dtype)
    return {"x": x, "u": u, "z": z} | call(name, u, z)


def scale_of(f):
    """The size of the terms that cancel in a slack."""
    return 1 + np.max(np.abs(f["u"] * f["z"]).sum((1, 2)))


@pytest.mark.sample(18)
@rows
def test_prox_is_not_bettered(name):
    """No point around the prox, of many kinds, has a lower objective."""
    f = pairs(name)
    rng = np.random.default_rng(3)
    for x, u, best in zip(f["x"], f["u"], f["value"], strict=True):
        sizes = 10.0 ** rng.uniform(-3, 0, size=(10, 1, 1))
        noise = rng.normal(size=(10, *SHAPE)) * (rng.uniform(size=(10, *SHAPE)) < 0.4)
        moved = np.concatenate([u + sizes * noise, u + sizes * noise * (u != 0), (1 + sizes) * u, u + sizes * (x - u)])
        moved = np.concatenate([moved, call(name, moved, step=0.1)["prox"]])  # so that many are feasible
        values = np.concatenate([call(name, moved[:40])["value"], call(name, moved[40:])["value"]])
        gain = values - best + (np.sum((moved - x) ** 2, (1, 2)) - np.sum((u - x) ** 2)) / (2 * STEP)
        assert np.isfinite(best)
        assert np.min(gain) >= -tolerance(1e-12, 1e-5) * (1 + best + np.sum(x**2))


@pytest.mark.sample(6)
@rows_where(lambda row: row.make(1.0).separable)
def test_separable_prox_and_conjugate_equal_brute_force(name):
    """On a grid of one coefficient at a time, for short steps and for those where MCP and SCAD jump."""
    penalty = TABLE[name].make(STRENGTH)
    one = jnp.zeros(P)
    terms = [np.broadcast_to(np.asarray(a), (P,))[:, None] for a in penalty.terms(one)]
    limits = np.concatenate([terms[2], terms[3]]).ravel()
    spacing = 0.005
    grid = np.unique(np.concatenate([np.arange(-8, 8, spacing), limits[np.isfinite(limits)]])).astype(one.dtype)
    points = jnp.broadcast_to(jnp.asarray(grid), (P, len(grid)))
    values = np.asarray(penalty.curve(type(penalty.terms(one))(*map(jnp.asarray, terms)), points))
    values = np.where((grid >= terms[2]) & (grid <= terms[3]), values, np.inf)
    x = np.clip(draws(6, SHAPE, seed=4), -6, 6)
    for step in (0.3, 2.5, 6.0):
        u = call(name, x, step=step)["prox"]
        brute = grid[np.argmin((grid - x[..., None]) ** 2 / (2 * step) + values[:, None, :], axis=-1)]
        assert np.mean(np.abs(u - brute) <= spacing) > 0.99  # where it jumps, the grid may see the other side
    if penalty.convex:
        f = pairs(name)
        z, found = f["z"][:3], f["conjugate"][:3]  # whose maximisers are on the grid
        brute = np.max(z[..., None] * grid - values[:, None, :], axis=-1).sum((1, 2))
        assert np.all(found >= brute - tolerance(1e-12, 1e-4))
        assert_close(found, brute, f64=1e-3, f32=1e-3, scale=1 + np.abs(brute).max())


@pytest.mark.sample(8)
@convex_rows
def test_envelope_has_the_moreau_gradient(name):
    """The derivative of min over u of P(u) + ‖u − x‖²/(2 step) is (x − prox)/step."""
    f = pairs(name)
    rng = np.random.default_rng(5)
    h = tolerance(1e-4, 1e-2)
    along = rng.normal(size=f["x"].shape)

    def envelope(x):
        u = call(name, x)["prox"]
        return call(name, u)["value"] + inner(u - x, u - x) / (2 * STEP)

    finite = (envelope(f["x"] + h * along) - envelope(f["x"] - h * along)) / (2 * h)
    size = np.sum(np.abs(along * f["z"])) + np.abs(envelope(f["x"])).max()
    assert_close(finite, inner(f["z"], along), f64=1e-6, f32=1e-3, scale=size)


@pytest.mark.sample(16)
@convex_rows
def test_prox_pairs_have_no_slack(name):
    f = pairs(name)
    assert np.all(np.isfinite(f["value"]))
    assert np.all(f["slack"] >= 0)
    assert_close(f["slack"], np.zeros(5), f64=1e-14, f32=4e-6, scale=scale_of(f))
    assert_close(f["conjugate"], inner(f["u"], f["z"]) - f["value"], f64=1e-13, f32=1e-5, scale=scale_of(f))


@pytest.mark.sample(10)
@convex_rows
def test_slack_is_fenchel_young(name):
    """P(w) + P*(z) − ⟨w, z⟩ for all pairs, and not negative: with the test above, the definition of the conjugate."""
    f = pairs(name)
    i, k = np.divmod(np.arange(25), 5)
    slack = call(name, f["u"][i], f["z"][k])["slack"]
    expected = f["value"][i] + f["conjugate"][k] - inner(f["u"][i], f["z"][k])
    assert np.all(slack >= 0)
    assert_close(slack, expected, f64=1e-13, f32=1e-5, scale=scale_of(f))


@pytest.mark.sample(10)
@rows
def test_distance_vanishes_at_prox_pairs_only(name):
    f = pairs(name)
    assert_close(f["distance"], np.zeros_like(f["distance"]), f64=1e-13, f32=1e-5, scale=1 + np.abs(f["z"]).max())
    moved = call(name, f["u"], f["z"] + 0.5 * draws(5, SHAPE, seed=6))
    still = moved.get("slack", np.ones(5)) <= 1e-5  # a corner of a ball has room for z
    assert np.all(still | (moved["distance"].max((1, 2)) > 1e-3))


@pytest.mark.sample(6)
@convex_rows
def test_dual_scale_ends_at_the_boundary(name):
    f = pairs(name)
    s = call(name, f["x"])["dual scale"]
    x = s[:, None, None] * f["x"]
    assert np.all((s >= 0) & (s <= 1))
    assert np.all(np.isfinite(call(name, x)["conjugate"]))
    assert np.all(np.isinf(call(name, 1.001 * x)["conjugate"]) | (s == 1) | (s == 0))


@pytest.mark.sample(8)
@rows_where(lambda row: row.has_strength)
def test_dual_norm_is_where_zero_stops_being_optimal(name):
    z = draws(4, SHAPE, seed=7)
    z = z - call(name, z)["unpenalised"]
    z[:, 2] = 0  # unpenalised within limits: fitted too
    z = z - call(name, z)["unpenalised"]
    norm = call(name, z, c=1.0)["dual norm"]
    assert np.all((norm > 0) & np.isfinite(norm))
    below, above = (call(name, 0 * z, z, c=c * norm)["distance"].max((1, 2)) for c in (0.99, 1.0001))
    assert np.all(below > 1e-4)
    assert np.all(above <= tolerance(1e-13, 1e-6))
    # the prox at a step short enough for one local minimum
    below, above = (np.abs(call(name, 0.5 * z, c=c * norm, step=0.5)["prox"]).max((1, 2)) for c in (0.99, 1.0001))
    assert np.all(below > 1e-5)
    assert np.all(above <= tolerance(1e-13, 1e-6))


@pytest.mark.sample(6)
@rows
def test_tangent_is_an_orthogonal_projection_along_which_the_penalty_is_smooth(name):
    """T = Tᵀ = T², and P(u ± hd) = P(u) ± h⟨∇P(u), d⟩ for d = Tz, with ∇P what autodiff says."""
    f = pairs(name)
    u = f["u"][2]
    basis = np.eye(u.size).reshape(-1, *SHAPE)
    T = call(name, np.broadcast_to(u, basis.shape), basis)["tangent"].reshape(u.size, u.size)
    assert_close(T, T.T, f32=1e-5)
    assert_close(T @ T, T, f32=1e-5)
    if "L2Ball" in name:
        return  # its surface is curved
    direction = call(name, f["u"], draws(5, SHAPE, seed=8))["tangent"]
    h = tolerance(1e-5, 1e-3)
    slope = inner(f["gradient"], direction)
    for sign in (1, -1):
        change = call(name, f["u"] + sign * h * direction)["value"] - f["value"]
        assert_close(change, sign * h * slope, f64=1e-8, f32=1e-4, scale=1 + f["value"].max())


@pytest.mark.sample(6)
@rows
def test_unpenalised_directions_cost_nothing(name):
    f = pairs(name)
    free = call(name, f["u"], draws(5, SHAPE, seed=9))["unpenalised"]
    assert_close(call(name, f["u"] + free)["value"], f["value"], f64=1e-12, f32=1e-5, scale=1 + f["value"].max())
    assert_close(call(name, f["u"], free)["unpenalised"], free, f32=1e-5)
    assert_close(call(name, f["u"], f["z"])["unpenalised"], np.zeros_like(free), f64=1e-13, f32=1e-5, scale=10)
    assert np.all(free[f["free"]] != 0)


@rows
def test_derivatives_of_the_value_are_finite(name):
    """At sparse points and at 0, of first and second order."""
    for found in (pairs(name), call(name, np.zeros((2, *SHAPE)), draws(2, SHAPE))):
        assert np.all(np.isfinite(found["gradient"]))
        assert np.all(np.isfinite(found["curvature"]))


@pytest.mark.x64
@rows
def test_derivatives_of_prox_equal_finite_differences(name):
    """In the point, the strength and the step, in reverse mode."""
    x, cotangent, along = (draws(6, SHAPE, seed=seed) for seed in (10, 11, 12))
    h, dc, dstep = 1e-6, 0.3, -0.2
    pulled_c, pulled_x, pulled_step = call(name, x, cotangent)["pulled"]
    ends = [call(name, x + s * h * along, c=STRENGTH + s * h * dc, step=STEP + s * h * dstep)["prox"] for s in (1, -1)]
    expected = inner(cotangent, (ends[0] - ends[1]) / (2 * h))
    found = pulled_c * dc + inner(pulled_x, along) + pulled_step * dstep
    assert_close(found, expected, f64=1e-7, scale=np.abs(expected).max() + 1)


@rows
def test_lanes_of_strengths_equal_one_by_one(name):
    """A vmap over strengths, with the other lanes at other strengths or at the same."""
    x = np.repeat(draws(1, SHAPE), 3, axis=0)
    strengths = np.array([0.1, 0.6, 2.5])
    together = call(name, x, c=strengths)
    for k, c in enumerate(strengths):
        alone = call(name, x[k : k + 1], c=c)
        for key in ("prox", "value", "tangent"):
            assert_close(together[key][k], alone[key][0], f64=1e-13, f32=1e-5)


@rows
def test_strengths_are_leaves(name):
    """Two strengths have one tree structure and equal shapes, which is what `jit` compiles for."""
    one, other = (jax.eval_shape(lambda c: TABLE[name].make(c), jnp.array(c)) for c in (0.1, 2.5))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert jax.tree.leaves(one) == jax.tree.leaves(other)
    rebuilt = jax.tree.unflatten(jax.tree.structure(one), jax.tree.leaves(one))
    assert jax.tree.structure(rebuilt) == jax.tree.structure(one)


@pytest.mark.once
@pytest.mark.parametrize("name", ["L1", "Group"])
def test_a_new_strength_does_not_compile(name):
    traces = []

    @jax.jit
    def prox(penalty, x):
        traces.append(1)
        return penalty.prox(x, STEP)

    for c in (0.1, 2.5):
        prox(TABLE[name].make(jnp.array(c)), jnp.ones(P))
    assert len(traces) == 1


@pytest.mark.sample(8)
@pytest.mark.once
@rows_where(lambda row: row.per_column and not row.once)
def test_targets_are_separate(name):
    """The penalty of (p, t) is that of its columns (p,), except where it couples them."""
    f = pairs(name)
    penalty = TABLE[name].make(STRENGTH)

    @partial(jax.jit, compiler_options=QUICKLY)
    @jax.vmap
    def methods(x, u, z):
        duals = (penalty.slack(u, z), penalty.conjugate(z)) if penalty.convex else ()
        return penalty.prox(x, STEP), penalty.tangent(u, z), penalty.value(u), duals

    columns = [np.moveaxis(a, -1, 0).reshape(-1, P) for a in (f["x"], f["u"], f["z"])]
    prox, tangent, *sums = jax.tree.map(lambda a: np.asarray(a).reshape(3, 5, *a.shape[1:]), methods(*columns))
    assert_close((f["u"], f["tangent"]), (np.moveaxis(prox, 0, -1), np.moveaxis(tangent, 0, -1)), scale=scale_of(f))
    expected = [f["value"], *((f["slack"], f["conjugate"]) if penalty.convex else ())]
    assert_close(expected, jax.tree.leaves(jax.tree.map(lambda a: a.sum(0), sums)), f64=1e-12, scale=scale_of(f))


@rows
def test_nan_is_not_silent(name):
    x = draws(1, SHAPE)
    found = call(name, x)
    place = np.unravel_index(np.argmin(found["free"][0]), SHAPE)
    everywhere = found["free"].all()
    broken = x.copy()
    broken[(0, *place)] = np.nan
    found = call(name, broken)
    for key in ("value", "slack", "conjugate"):  # inf where another coefficient is outside of the domain
        assert key not in found or (everywhere and key == "conjugate") or not np.isfinite(found[key]), key
    for key in ("prox", "distance", "dual norm"):
        assert key not in found or np.any(np.isnan(found[key])), key
    if "dual scale" in found and name not in ("Zero", "PlusL2"):  # which take every z
        assert np.isnan(found["dual scale"])
    if name not in ("Zero", "NonNegative"):
        found = call(name, x, c=np.nan)
        assert np.any(np.isnan(found["prox"]))
        assert np.isnan(found["value"]) or "Box" in name or "Ball" in name


@pytest.mark.sample(4)
@pytest.mark.x64
@rows
def test_float32_stays_float32(name):
    penalty = jax.tree.map(np.float64, TABLE[name].make(0.6))  # strengths of more precision than the coefficients
    w = jax.ShapeDtypeStruct(SHAPE, jnp.float32)
    methods = [penalty.value, lambda w: penalty.prox(w, np.float64(0.5)), lambda w: penalty.distance(w, w)]
    methods.append(lambda w: penalty.tangent(w, w))
    if penalty.convex:
        methods += [penalty.conjugate, penalty.dual_scale, lambda w: penalty.slack(w, w)]
    if TABLE[name].has_strength:
        methods.append(penalty.dual_norm)
    for method in methods:
        assert jax.eval_shape(method, w).dtype == jnp.float32


@pytest.mark.sample(6)
@pytest.mark.once
@rows
def test_exports_for_accelerators(name):
    shape = jax.ShapeDtypeStruct((P, 3), jnp.float32)
    prox = jax.jit(lambda x: jax.vmap(lambda c: TABLE[name].make(c).prox(x, STEP))(jnp.array([0.5, 1.0])))
    assert jax.export.export(prox, platforms=("cuda", "tpu"))(shape).platforms == ("cuda", "tpu")


@pytest.mark.once
@pytest.mark.parametrize("name", ["L1", "L2", "MCP", "SCAD", "MultiTask", "Group"])
def test_factors_zero_and_inf(name):
    """An unpenalised coefficient is not moved, an excluded one is 0 with a finite value, also at λ = 0 and λ = ∞."""
    factors = jnp.array([0.0, 1.0, jnp.inf])

    def make(c):
        return Group(c, (0, 1, 2), factors) if name == "Group" else getattr(penalties, name)(c, factors=factors)

    @partial(jax.jit, compiler_options=QUICKLY)
    @jax.vmap
    def methods(c):
        w = jnp.ones(3)
        allowed = w.at[2].set(0)
        prox, slope = jax.jvp(lambda c: make(c).prox(w, 1.0), (c,), (1.0,))
        return prox, slope, make(c).value(w), make(c).value(allowed), make(c).free(w)

    prox, slope, outside, inside, free = methods(jnp.array([0.0, 0.5, jnp.inf]))
    assert_close(prox[:, 0], np.ones(3))
    assert_close(prox[:, 2], np.zeros(3))
    assert float(prox[2, 1]) == 0
    assert np.all(np.isinf(outside))
    assert np.all(np.isfinite(inside[:2]))
    assert free[1].tolist() == [True, False, False]
    assert np.all(np.isfinite(slope[:2]))  # the infinite factor does not enter


@pytest.mark.once
def test_limits_make_domains_one_sided():
    @partial(jax.jit, compiler_options=QUICKLY)
    def methods(penalty, z):
        return penalty.conjugate(z), penalty.dual_scale(z), penalty.dual_norm(z), penalty.value(z)

    def at(lower, upper, z):
        return [float(a) for a in methods(Limited(L1(1.0), lower, upper), jnp.array(z))]

    assert at(0.0, jnp.inf, [-5.0, 0.5])[:3] == [0, 1, 0.5]
    assert at(0.0, jnp.inf, [2.0, 0.0])[:3] == [np.inf, 0.5, 2]
    assert at(-1.0, 2.0, [3.0, -4.0]) == [7, 1, 4, np.inf]  # 2·(3 − 1) + 1·(4 − 1)


@pytest.mark.once
def test_dual_norm_of_quadratics_and_constraints():
    z = jnp.array([1.0, 0.0])
    for penalty in (Zero(), L2(1.0), Tikhonov(1.0, jnp.ones(2)), Limited(L2(1.0), -1.0)):
        assert np.isinf(penalty.dual_norm(z))
        assert float(penalty.dual_norm(0 * z)) == 0
    for penalty in (L1Ball(1.0), L2Ball(1.0), Box(-1.0, 1.0), NonNegative(), Limited(Zero(), 0.0)):
        with pytest.raises(TypeError, match="no strength"):
            penalty.dual_norm(z)


def test_what_does_not_exist_raises():
    z = jnp.ones(2)
    for method in (MCP(1.0).conjugate, SCAD(1.0).dual_scale, Limited(MCP(1.0), 0.0).conjugate):
        with pytest.raises(TypeError, match="not convex"):
            method(z)
    with pytest.raises(TypeError, match="separable"):
        Limited(Group(1.0, [0, 0]), 0.0).value(z)


@pytest.mark.once
def test_strengths_per_target_and_per_coefficient():
    makers = (L1, MCP, lambda c: Group(c, GROUPS), TotalVariation, L1Ball, lambda c: Tikhonov(c, MATRIX))

    @partial(jax.jit, compiler_options=QUICKLY)
    def both(W, lams):
        together = [make(lams).prox(W, STEP) for make in makers]
        return together, [jax.vmap(lambda lam, w, m=make: m(lam).prox(w, STEP), (0, 1), 1)(lams, W) for make in makers]

    together, apart = both(jnp.asarray(draws(1, SHAPE)[0]), jnp.array([0.2, 0.7, 1.5]))
    assert_close(together, apart)
    W, strengths = jnp.asarray(draws(1, SHAPE)[0]), jnp.linspace(0.1, 1, P)
    assert_close(L1(strengths[:, None]).prox(W, STEP), L1(1.0, strengths).prox(W, STEP))


@pytest.mark.once
def test_an_array_of_steps():
    w, steps = jnp.array([3.0, -2.0, 1.0]), jnp.array([0.1, 1.0, 5.0])
    for penalty in (ElasticNet(0.5, 1.0), Limited(MCP(0.5, 2.0), -1.0)):
        prox = jax.jit(penalty.prox, compiler_options=QUICKLY)
        assert_close(prox(w, steps), jnp.stack([prox(w, step)[k] for k, step in enumerate(steps)]))


FINITE = np.where(np.isinf(FACTORS), 0, FACTORS)
EXCLUDED = np.where(np.isinf(FACTORS), 0, np.inf)


@pytest.mark.sample(4)
@pytest.mark.once
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ElasticNet(0.5, 0.0), L1(0.5)),
        (Tikhonov(0.5, np.eye(P)), L2(0.5)),
        (Tikhonov(0.5, np.sqrt(FINITE)), L2(0.5, FINITE)),
        (Slope(0.5 * np.ones(P)), L1(0.5)),
        (SparseGroup(0.0, 0.5, GROUPS), Group(0.5, GROUPS)),
        (MultiTask(0.5), Group(0.5, range(P))),
        (Limited(Box(-1.0, 2.0), -2.0, 1.0), Box(-1.0, 1.0)),
        (L2(0.5, FACTORS), Limited(L2(0.5, FINITE), -EXCLUDED, EXCLUDED)),
        (PlusL2(L1(0.5), np.full(P, 0.4)), ElasticNet(0.5, 0.4)),
        (LimitedVariation(TotalVariation(0.5)), TotalVariation(0.5)),
        (SparseVariation(0.0, 0.5), TotalVariation(0.5)),
        (SparseVariation(0.5, 0.0), L1(0.5)),
        (LimitedSlope(Slope(0.5 * np.ones(P), FACTORS), LOWER, UPPER), Limited(L1(0.5, FACTORS), LOWER, UPPER)),
        (LimitedSlope(Slope(0.5 * DECAY)), Slope(0.5 * DECAY)),
    ],
)
def test_special_cases_agree(one, other):
    @partial(jax.jit, compiler_options=QUICKLY)
    def difference(w, z):
        u, s = other.prox(w, STEP), other.dual_scale(z)
        z = 0.9 * s * z
        methods = [(p.prox(w, STEP), p.dual_scale(z / 0.9), p.value(u), p.slack(u, z)) for p in (one, other)]
        return jax.tree.map(lambda a, b: a - b, *methods)

    found = difference(*(jnp.asarray(a) for a in draws(2, (P,)) * np.array([[1.0], [0.3]])))
    assert_close(found, jax.tree.map(jnp.zeros_like, found), f64=1e-13, scale=10)


@pytest.mark.once
def test_ncvreg_scaling():
    """n·p(β; λ, γ) of the mean objective, in columns of unit norm, and for MCP in the columns themselves."""
    beta, n = jnp.asarray(draws(1, (P,))[0]), 50.0
    for make in (MCP, SCAD):
        assert_close(make(n**0.5 * 0.4, 3.0).value(n**0.5 * beta), n * make(0.4, 3.0).value(beta), f32=1e-5)
    assert_close(MCP(n * 0.4, 3.0 / n).value(beta), n * MCP(0.4, 3.0).value(beta), f32=1e-5)


@pytest.mark.parametrize("p", [1, 7, 2000])
def test_slope_prox_equals_isotonic_regression(p):
    kinds = {
        "linear": np.linspace(1.5, 0.1, p),
        "constant": np.full(p, 0.4),
        "largest": np.append(3.0, np.zeros(p - 1)),
        "zero tail": np.maximum(np.linspace(1, -1, p), 0),
        "none": np.zeros(p),
    }
    x = draws(1, (p,), seed=p)[0]
    prox = jax.jit(jax.vmap(lambda lams: Slope(lams).prox(jnp.asarray(x), STEP)), compiler_options=QUICKLY)
    order = np.argsort(-np.abs(x))
    for (kind, lams), found in zip(kinds.items(), prox(np.stack(list(kinds.values()))), strict=True):
        sizes = isotonic_regression(np.abs(x)[order].astype(float) - STEP * lams, increasing=False).x
        expected = np.zeros(p)
        expected[order] = np.maximum(sizes, 0)
        np.testing.assert_allclose(found, np.sign(x) * expected, rtol=0, atol=tolerance(1e-12, 1e-5), err_msg=kind)


@pytest.mark.parametrize("p", [1, 2, 30, 2000])
def test_total_variation_prox_meets_its_optimality_conditions(p):
    """The sums c of x − u satisfy |c| ≤ λ, c = −λ·sign at every jump, and end at 0."""
    rng = np.random.default_rng(p)
    noise = rng.normal(size=p)
    signals = {
        "noise": (noise, 0.5),
        "weak": (noise, 0.01),
        "no penalty": (noise, 0.0),
        "strong": (noise, 10.0),
        "constant": (np.full(p, 3.3), 0.4),
        "ramp": (np.linspace(-1, 1, p), 0.3),
        "ties": (np.round(2 * noise), 1.0),
        "steps far from 0": (np.repeat(rng.normal(size=-(-p // 5)), 5)[:p] + 0.1 * noise + 50, 0.7),
        "wide range": (np.exp(3 * noise), 0.5),
    }
    dtype = jnp.result_type(float)
    x, lams = (np.stack(column).astype(dtype) for column in zip(*signals.values(), strict=True))
    prox = jax.jit(jax.vmap(lambda x, lam: TotalVariation(lam).prox(x, 1.0)), compiler_options=QUICKLY)
    for kind, y, lam, u in zip(signals, x.astype(float), lams, np.asarray(prox(x, lams), float), strict=True):
        sums, signs = np.cumsum(y - u), np.sign(np.diff(u))
        slip = tolerance(1e-14, 4e-6) * p * (1 + np.abs(y).max() + lam)
        assert np.abs(sums[-1]) <= slip, kind
        assert np.all(np.abs(sums[:-1]) <= lam + slip), kind
        assert np.all(np.abs(sums[:-1] + lam * signs)[signs != 0] <= slip), kind


@pytest.mark.x64
def test_total_variation_prox_equals_a_quadratic_program():
    """Projected gradient on the dual, min over |c| ≤ λ of ½‖x + Dᵀc‖², to 1e-10."""
    x = draws(1, (15,), seed=11)[0]
    D = np.diff(np.eye(15), axis=0)
    c = np.zeros(14)
    for _ in range(4000):
        c = np.clip(c - 0.25 * D @ (x + D.T @ c), -0.8, 0.8)
    prox = jax.jit(lambda x: TotalVariation(0.8).prox(x, 1.0), compiler_options=QUICKLY)
    assert_close(prox(jnp.asarray(x)), x + D.T @ c, f64=1e-9)


@pytest.mark.x64
def test_slope_dual_norm_equals_a_linear_program():
    """max ⟨w, z⟩ over P(w) ≤ 1, with P the largest of Σ λ_π(i)|wᵢ| over the orders π, here for p = 3."""
    z, lams = np.array([0.7, -1.1, 0.4]), np.array([2.0, 1.0, 0.5])
    orders = [lams[list(order)] for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))]
    best = linprog(-np.abs(z), A_ub=np.array(orders), b_ub=np.ones(6), bounds=(0, None))
    assert_close(Slope(lams).dual_norm(jnp.asarray(z)), -best.fun, f64=1e-9)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", ["SparseGroup", "Slope", "Limited Slope", "TotalVariation", "Limited TotalVariation"])
def test_large_sizes(name):
    """Batches of 2000 coefficients: pairs from the prox keep their slack and distance at rounding."""
    p = 2000
    make = {
        "SparseGroup": lambda c: SparseGroup(c, c, np.arange(p) % 300),
        "Slope": lambda c: Slope(c * jnp.linspace(2, 0.1, p)),
        "Limited Slope": lambda c: LimitedSlope(
            Slope(c * jnp.linspace(2, 0.1, p), jnp.linspace(0.5, 2, p)), -(jnp.sin(jnp.arange(p)) ** 2), 2.0
        ),
        "TotalVariation": TotalVariation,
        "Limited TotalVariation": lambda c: LimitedVariation(
            TotalVariation(c), -np.linspace(0, 1, p), np.arange(p) % 7
        ),
    }[name]

    @partial(jax.jit, compiler_options=QUICKLY)
    @jax.vmap
    def pair(c, x):
        penalty = make(c)
        u = penalty.prox(x, 1.0)
        z = x - u
        s = penalty.dual_scale(x)
        sizes = jnp.sum(jnp.abs(u * z))
        return penalty.slack(u, z) / sizes, jnp.max(penalty.distance(u, z)), penalty.conjugate(s * x), jnp.sum(u != 0)

    slack, distance, conjugate, count = pair(jnp.array([0.2, 1.0]), jnp.asarray(draws(2, (p,))))
    assert np.all(slack <= tolerance(1e-13, 3e-5))
    assert np.all(distance <= tolerance(1e-12, 1e-4))
    assert np.all(np.isfinite(conjugate))
    assert np.all(count > 0)


@pytest.mark.x64
@pytest.mark.parametrize("name", ["L1", "Group", "SparseGroup", "Slope", "TotalVariation", "Limited L1"])
def test_dual_norms_are_differentiable(name):
    z, along = jnp.asarray(draws(2, (P,), seed=12))
    norm = TABLE[name].make(1.0).dual_norm
    both = jax.jit(jax.vmap(lambda z: jax.jvp(norm, (z,), (along,))), compiler_options=QUICKLY)
    values, slopes = both(jnp.stack([z, z + 1e-6 * along, z - 1e-6 * along]))
    assert_close(slopes[0], (values[1] - values[2]) / 2e-6, f64=1e-7)


@pytest.mark.once
def test_groups_are_any_sequence_and_part_of_the_structure():
    trees = [jax.tree.structure(Group(1.0, groups)) for groups in ((0, 0, 1), [0, 0, 1], np.array([0, 0, 1]))]
    assert trees[0] == trees[1] == trees[2]
    assert len({hash(tree) for tree in trees}) == 1
    assert jax.tree.structure(Group(1.0, [0, 1, 1])) != trees[0]


@pytest.mark.once
def test_rules_and_axes_of_penalties_within_limits():
    known = jax.jit(jax.vmap(lambda a: [is_valid(penalty) for penalty in (
        Slope(jnp.ones(2), jnp.array([0.0, a])),
        limit(TotalVariation(1.0), jnp.array([-1.0, -a]), jnp.inf),
        limit(Slope(jnp.ones(2)), -a, 1.0),
        limit(L1Ball(1.0, jnp.array([1.0, a])), 0.0, jnp.inf),
    )]))(jnp.array([1.0, 2.0, jnp.nan]))  # fmt: skip
    assert [valid.tolist() for valid in known] == 4 * [[True, True, False]]
    axes = strength_axes(limit(L1Ball(jnp.ones(4), jnp.ones(3)), -jnp.ones(3), 1.0))
    assert (axes.penalty.radius, axes.penalty.factors, axes.lower) == (0, None, None)
    assert float(scale_strengths(limit(TotalVariation(2.0), -1.0, 1.0), 3.0).penalty.lam) == 6
    assert scale_strengths(limit(L2Ball(2.0), -1.0, 1.0), 3.0).penalty.radius == 2.0


DESIGN = {"age": jnp.ones(4), "genes": jnp.ones((4, 2))}


@pytest.mark.once
def test_ravel_penalty():
    _, structure = ravel_design(DESIGN)
    _, matrix = ravel_design(jnp.ones((4, 3)))
    blocks = {"age": 0.0, "genes": jnp.array([1.0, 2.0])}
    flat = jnp.array([0.0, 1.0, 2.0])

    assert_close(ravel_penalty(L1(blocks, blocks), structure), L1(flat, flat))
    assert_close(ravel_penalty(L1(blocks, blocks), structure, (2,)), L1(flat[:, None], flat[:, None]))
    assert jnp.shape(ravel_penalty(L1(0.5), structure, (2,)).lam) == ()
    assert ravel_penalty(L1(0.5), structure).factors is None
    # a strength follows NumPy's rules, factors and limits are per coefficient
    kept = ravel_penalty(ElasticNet(jnp.ones(3), 0.1, flat), matrix, (3,))
    assert kept.l1.shape == (3,)
    assert kept.factors.shape == (3, 1)
    nested = ravel_penalty(Limited(L1(blocks), {"age": -1.0, "genes": -jnp.inf}), structure)
    assert_close(nested.penalty.lam, flat)
    assert nested.lower.tolist() == [-1.0, -jnp.inf, -jnp.inf]
    assert_close(ravel_penalty(LimitedBall(L2Ball(1.0, blocks)), structure).penalty.factors, flat)
    assert ravel_penalty(Group(1, [0, 0, 1]), structure).groups == (0, 0, 1)
    assert ravel_penalty(L1([0.1, 0.2, 0.3]), matrix).lam.shape == (3,)
    # groups within blocks
    numbers = {"age": 0.5, "genes": 3.0}
    assert_close(ravel_penalty(Group(numbers, [1, 0, 0]), structure).lam, jnp.array([3.0, 0.5]))
    assert_close(ravel_penalty(SparseGroup(1.0, numbers, [0, 1, 2]), structure).l2, jnp.array([0.5, 3.0, 3.0]))
    assert ravel_penalty(Group(numbers, [1, 0, 0]), structure, (2,)).lam.shape == (2, 1)
    ridge = ravel_penalty(PlusL2(Group(1.0, [1, 0, 0]), numbers), structure, (2,))
    assert_close(ridge.l2, jnp.array([[0.5], [3.0], [3.0]]))
    assert_close(ravel_penalty(PlusL2(L1(1.0), blocks), structure).l2, flat)
    # a prefix goes through transformations
    lams = jax.vmap(lambda lam: ravel_penalty(L1({"age": 0.0, "genes": lam}), structure).lam)(jnp.array([1.0, 2.0]))
    assert_close(lams, jnp.array([[0.0, 1.0, 1.0], [0.0, 2.0, 2.0]]))


@pytest.mark.parametrize(
    ("penalty", "name"),
    [
        (L1(jnp.ones(4)), "lam"),
        (L1({"age": 1.0}), "lam"),
        (L1(1.0, {"age": 1.0, "other": 2.0}), "factors"),
        (Limited(L1(1.0), jnp.zeros((2, 2))), "lower"),
        (L1("much"), "lam"),
        (Group({"age": 1.0, "genes": 2.0}, [0, 0, 1]), "lam takes one number per block .* no group may be in two"),
        (Group({"age": 1.0, "genes": jnp.ones(2)}, [0, 1, 1]), "lam takes one number per block"),
        (PlusL2(Group(1.0, [0, 0, 1]), jnp.ones(3)), r"l2 has shape \(3,\): it takes a scalar; with groups"),
        (TotalVariation({"age": 1.0, "genes": 2.0}), "lam of TotalVariation takes no value per block"),
        (L1Ball({"age": 1.0, "genes": 2.0}), "radius of L1Ball takes no value per block"),
    ],
)
def test_ravel_penalty_names_what_does_not_fit(penalty, name):
    _, structure = ravel_design(DESIGN)
    with pytest.raises(ValueError, match=name):
        ravel_penalty(penalty, structure)


@pytest.mark.once
def test_values_keep_their_curvature_at_zero():
    for penalty, bend in ((L1(2.0), 0), (L2(3.0), 3), (ElasticNet(1.0, 2.0), 2)):
        np.testing.assert_allclose(jax.hessian(penalty.value)(jnp.zeros(3)), bend * np.eye(3))
        np.testing.assert_allclose(jax.hessian(penalty.value)(jnp.ones(3)), bend * np.eye(3))
