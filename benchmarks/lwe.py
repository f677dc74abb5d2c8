"""Products by learning with errors (trust "parties"): security by our estimate, the law of errors, and a whole run.

    python -m benchmarks lwe           50,000 rows, 200 columns against 2
    python -m benchmarks lwe --full    1,000,000 rows

Security   of every line of the table: bits core-SVP of the primal and of the dual attack, for secrets of the sd that is
           left after the hints that a run may give, and for fresh ones; by how much it falls for many secrets. It is an
           estimate of ours, and no outside cryptographer has read it.
Errors     the variance of an opened answer's errors over the predicted one, of columns that are independent given the
           receiver's secrets: its sd is about √(2/columns).
Narrow     where encryption may take the place of masks inside trust "secure": megabytes that masked columns of class sums
           and of the Gram matrix take, that encrypted ones take (up and down), processor seconds that the products of
           either take under encryption (measured on some rows), and the line, in Mbit/s, below which encrypted class
           sums alone would be sooner there. The last figure is what pairs would send whose third party multiplies
           blindly (docs/understand/privacy/lwe.md), for the Gram matrix.
A run      seconds on the clock with both cores, and of processor, of all roles in one process; megabytes that all nodes
           sent, the parameters that were taken; with numbers and with classes as labels. Beside it the run with masks.
It fails if a run of a million rows takes more than 30 MB or 60 s on the clock.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from unittest import mock

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

import colonnade as co
from colonnade.kernels.lwe import inner, unpack_hidden
from colonnade.methods.gram import lattice as gram_lattice
from colonnade.methods.gram.lattice import bytes_sent, exchanged
from colonnade.methods.gram.plan import StageName
from colonnade.model.job import Job
from colonnade.privacy.exchange import Exchange, Mechanism, Side, settle
from colonnade.privacy.lattice import (
    LEAST_SIGMA,
    QUANTUM,
    TABLE,
    Blinding,
    Hiding,
    error_variance,
    public_product,
    security,
    sigma_left,
)

MOST_MB, MOST_SECONDS, ROWS = 30.0, 60.0, 1_000_000


def main(quick: bool = True) -> int:
    with threadpool_limits(limits=1):
        estimate()
        errors()
        narrow()
        return whole_run(50_000 if quick else ROWS)


def estimate() -> None:
    print(
        f"bits core-SVP, primal and dual, after hints (sd {LEAST_SIGMA:g}), quantum, and without hints; less log2 of twice "
        "the secrets"
    )
    for lattice in TABLE:
        left, fresh = security(lattice), security(lattice, float(lattice.sigma))
        quantum = security(lattice, LEAST_SIGMA, QUANTUM)
        said = f"q 2^{lattice.bits}, length {lattice.dimension}, sd {float(lattice.sigma):g}"
        print(
            f"  {said}: {left[0]:.1f} {left[1]:.1f}   quantum {quantum[0]:.1f} {quantum[1]:.1f}   "
            f"fresh {fresh[0]:.1f} {fresh[1]:.1f}   1,000 secrets: -{math.log2(2_000):.1f}"
        )


def errors(rows: int = 2_000, columns: int = 400) -> None:
    print(
        f"errors, variance over predicted, {rows:,} rows, {columns} columns against 1 (sd {math.sqrt(2 / columns):.3f})"
    )
    rng, public = np.random.default_rng(0), bytes(32)
    for lattice in TABLE:
        for cut in (0, lattice.bits - 26):
            x, y = rng.integers(0, 2, (rows, columns)), rng.integers(-9, 10, (rows, 1))
            hiding = Hiding(rng.bytes(32), public, lattice, np.full(columns, 1 << 12), cut)
            blinding = Blinding(rng.bytes(32), public, lattice, 1)
            first = unpack_hidden(hiding.first_rows(), columns, 0, lattice, lattice.dimension)
            came = unpack_hidden(hiding.rows(0, x), columns, cut, lattice, rows)
            blind = blinding.blind(public_product(y, 0, 9, public, lattice))
            error = hiding.reveal(blind, blinding.mix(first) + inner(y, came, 9, lattice)) - (1 << 12) * (x.T @ y)
            law = error_variance((y**2).sum(axis=0).astype(float), cut, lattice)[0]
            print(f"  q 2^{lattice.bits}, {lattice.bits - cut} bits sent: {float((error**2).mean() / law):.3f}")


# rows, columns by party, the label holder first: as the parties' schemas encode them, without curves
CASES = {
    "flights (demo)": (261_877, (164, 37, 36)),
    "a9a": (39_073, (41, 41, 41)),
    "credit-default": (24_000, (7, 14, 6, 6)),
    "200 against 2": (1_000_000, (2, 200)),
}
PROBE = 4_096  # rows on which products under encryption are timed


def narrow() -> None:
    print("MB of class sums / Gram matrix: masked, encrypted; CPU s under encryption; Mbit/s; MB with a third party")
    for name, (rows, widths) in CASES.items():
        fed = co.Federation.split(
            sparse.csr_array((rows, sum(widths))),
            np.ones(rows),
            parties={f"p{k}": slice(sum(widths[:k]), sum(widths[: k + 1])) for k in range(len(widths))},
            label="p0",
        )
        job = Job(co.Problem(co.Logistic()), fed.roster(), co.Privacy(1.0, 1e-8, trust="secure"))
        stages = tuple(StageName)
        masked, hidden = np.array([bytes_sent(job, (stage,)) for stage in stages]).T / 1e6
        seconds = [encrypted_seconds(*exchanged(job, stage)) * rows / PROBE for stage in stages]
        faster = 8 * (masked[0] - hidden[0]) / seconds[0]
        third = (len(widths) - 1) * masked[1]
        print(
            f"  {name:15s} {masked[0]:6.1f} / {masked[1]:6.1f}   {hidden[0]:5.1f} / {hidden[1]:6.1f}   "
            f"{seconds[0]:5.1f} / {seconds[1]:5.1f}   {faster:5.0f}   {third:6.1f}",
            flush=True,
        )


def encrypted_seconds(widths: dict[str, int], pairs: tuple[tuple[str, str], ...]) -> float:
    """Processor seconds of all parties for PROBE rows: of senders that hide, of receivers that multiply."""
    lattice, rng, total = TABLE[0], np.random.default_rng(0), 0.0
    routes = [(a, b) if widths[a] <= widths[b] else (b, a) for a, b in pairs]
    for party in {a for a, _ in routes}:
        hiding = Hiding(bytes(32), bytes(32), lattice, np.full(widths[party], 1 << 12), 6)
        rows = rng.integers(0, 2, (PROBE, widths[party]))
        hiding.rows(0, rows)
        began = time.process_time()
        hiding.rows(0, rows)
        total += time.process_time() - began
    for party in {b for _, b in routes}:
        rows = rng.integers(-32, 33, (PROBE, widths[party]))
        began = time.process_time()
        public_product(rows, 0, 32, bytes(32), lattice)
        total += time.process_time() - began
    return total


def whole_run(rows: int) -> int:
    seen: list[Exchange] = []

    def settled(sides: Mapping[str, Side], pairs: tuple[tuple[str, str], ...], mechanism: Mechanism) -> Exchange:
        seen.append(settle(sides, pairs, mechanism))
        return seen[-1]

    with mock.patch.object(gram_lattice, "settle", settled):  # to print what it took
        worst = clock_and_size(rows)
    for one in {e.mechanism.sigma: e for e in seen if e.mechanism.rows == rows}.values():
        print(
            f"  q 2^{one.lattice.bits}, length {one.lattice.dimension}, {one.lattice.bits - one.cut} bits sent; "
            f"sensitivity grows {100 * one.growth:.2f} %, errors {100 * one.error:.2f} % of the noise, hints leave an sd "
            f"of {sigma_left(one.hints, one.lattice):.2f}, {one.mechanism.secrets} secrets {one.security:.1f} bits"
        )
    return int(rows == ROWS and (worst[0] > MOST_SECONDS or worst[1] > MOST_MB))


def clock_and_size(rows: int) -> tuple[float, float]:
    """The most seconds on the clock and the most MB of the runs with trust "parties"."""
    fit_seconds("parties", 200, classes=False)
    print(f"{rows:,} rows, 200 columns of zeros and ones against 2 numbers and the labels, epsilon 1")
    print("  s on the clock, CPU s (of 200 rows), MB")
    worst = 0.0, 0.0
    for trust in ("parties", "secure"):
        for classes in (False, True):
            clock, seconds, size = fit_seconds(trust, rows, classes=classes)
            little = fit_seconds(trust, 200, classes=classes)[1]
            said = f"{trust}, labels are {'classes' if classes else 'numbers'}"
            print(f"  {said:28s} {clock:6.1f} s {seconds:6.1f} ({little:.1f}) s {size:8.1f} MB", flush=True)
            if trust == "parties":
                worst = max(worst[0], clock), max(worst[1], size)
    return worst


def fit_seconds(trust: str, rows: int, *, classes: bool) -> tuple[float, float, float]:
    """On the clock, of processor, and MB; under `secure` with masks, whatever the rule says."""
    rng = np.random.default_rng(0)
    places = np.sort(rng.integers(0, 200, (rows, 12)), axis=1).ravel()
    wide = sparse.csr_array((np.ones(places.size), places, np.arange(0, places.size + 1, 12)), shape=(rows, 200))
    wide.sum_duplicates()
    wide.data[:] = 1.0
    numbers = np.clip(rng.normal(size=(rows, 2)), -1, 1)
    y = np.clip(0.3 * numbers[:, 0] + 0.1 * rng.normal(size=rows), -1, 1)
    table = sparse.hstack([wide, sparse.csr_array(numbers)]).tocsc()
    y = np.where(y > 0, 1.0, -1.0) if classes else y
    fed = co.Federation.split(table, y, parties={"wide": slice(0, 200), "narrow": slice(200, 202)}, label="narrow")
    norms = {"wide": 12**0.5, "narrow": 2**0.5}
    terms = co.Privacy(1.0, 1e-8, trust=trust, row_norm=norms, feature_bound=1.0, label_bound=1.0)
    loss = co.Logistic() if classes else co.LeastSquares()
    problem = co.Problem(loss, penalty=co.Ridge(1e-3), intercept=True)
    worth, gram_lattice.WORTH = gram_lattice.WORTH, math.inf
    try:
        with tempfile.TemporaryDirectory() as folder:
            clock, began = time.perf_counter(), time.process_time()
            fit = co.fit(fed, problem, co.PrivateGram(), terms, store=folder)
            spent = time.perf_counter() - clock, time.process_time() - began
            return *spent, fit.communication.bytes / 1e6
    finally:
        gram_lattice.WORTH = worth
