"""The audit along a self-training run: as D grows, do approximations get better, does regret add up, and would exact selection
have ended with another model?
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import xarray as xr

from pymc_bpls.audit.along_sentences import (
    COLUMNS,
    INTERRUPTED,
    say_ends,
    say_growth,
    say_regret,
    say_reliability,
    say_usable_along,
)
from pymc_bpls.audit.exact_selection import compare_ends, exact_run
from pymc_bpls.audit.forms import Form
from pymc_bpls.audit.report import Audit, Report
from pymc_bpls.audit.steps import audit_step
from pymc_bpls.audit.track import Track
from pymc_bpls.model.data.storing import as_tree
from pymc_bpls.montecarlo.references import Method
from pymc_bpls.selftraining.run import Run
from pymc_bpls.selftraining.saved_run import history_dataset
from pymc_bpls.text.attributes import strings
from pymc_bpls.text.numbers import plus_minus, with_interval
from pymc_bpls.text.progress import progress

_TAU = ("tau", "tau_low", "tau_high")
#: What is audited along a run by default.
ALONG = ("ppp", "ppp[ep]", "ppp[vi]", "ibpls")


class AuditAlong(Report):
    """What `BPLS.audit_along` found; `print` it first.

    `tree` holds `/rounds` over `step` (pseudo-labels in D) and `criterion`, `/final`, the run's last model beside that of exact
    selection, and `/exact_run`, the history of the latter.

    See Also
    --------
    BPLS.audit_along : makes it.
    plot_agreement : draws it.
    """

    @property
    def rounds(self) -> xr.Dataset:
        """Agreement over `criterion`, and the regret of the run's own choice, over `step`."""
        return self.tree["rounds"].to_dataset()

    @property
    def final(self) -> xr.Dataset:
        """The run's last model beside that of exact selection."""
        return self.tree["final"].to_dataset()

    _groups = ("rounds", "final")

    @property
    def table(self) -> pd.DataFrame:
        """A row a step: the rows of D, the regret of the run's own choice, and tau of each criterion, with errors."""
        rounds = self.rounds
        columns = {"n_labeled": rounds["n_labeled"].to_numpy().astype(int)}
        columns |= {name: rounds[name].to_numpy() for name in ("run_regret", "run_regret_mcse")}
        for label in rounds["criterion"].to_numpy().tolist():
            of = rounds.sel(criterion=label)
            columns |= {f"{name} of {label}": of[name].to_numpy() for name in _TAU}
        return pd.DataFrame(columns, index=pd.Index(rounds["step"].to_numpy(), name="pseudo-labels"))

    @property
    def _shown(self) -> pd.DataFrame:
        table = self.table
        own = zip(table["run_regret"], table["run_regret_mcse"], strict=True)
        shown: dict[str, Any] = {"labeled": table["n_labeled"], "regret of the run": [plus_minus(*pair) for pair in own]}
        for label in self.rounds["criterion"].to_numpy().tolist():
            triples = zip(*(table[f"{name} of {label}"] for name in _TAU), strict=True)
            shown[f"tau of {label}"] = [with_interval(*triple) for triple in triples]
        return pd.DataFrame(shown, index=table.index)

    def sentences(self) -> list[str]:
        """The verdict, what the columns of the table are, then an answer to each question."""
        return [self.verdict, COLUMNS, *strings(self.tree.attrs["answers"])]


def audit_track(track: Track, forms: Sequence[Form], method: Method, every: int, seed: int, progressbar: bool) -> AuditAlong:
    """Audit a run at every so many rounds, and do it again with exact selection; Ctrl-C ends it with what was audited."""
    steps = track.rounds(every)
    rounds: list[xr.Dataset] = []
    audits: list[Audit] = []
    exact = None
    with progress("auditing the run", progressbar, len(steps) + track.run.n_added) as tell:
        try:
            for step in steps:
                audit, kept = audit_step(track, forms, method, step, seed)
                audits.append(audit)
                rounds.append(kept)
                tell(1)
            exact = exact_run(track, method, tell)
        except KeyboardInterrupt:
            if not audits:
                raise
    return _report(rounds, audits, track, exact)


def _report(rounds: list[xr.Dataset], audits: list[Audit], track: Track, exact: Run | None) -> AuditAlong:
    """Everything in one tree, with a sentence for each question."""
    along = xr.concat(rounds, dim="step", join="outer")
    along = along.assign({name: along[name].astype(int) for name in ("n_labeled", "n_candidates", "reliable")})
    reasons = list(dict.fromkeys(reason for audit in audits for reason in audit.reasons))
    groups: dict[str, xr.Dataset] = {"rounds": along, "final": xr.Dataset()}
    ends = INTERRUPTED
    if exact is not None:
        groups["final"] = compare_ends(track, exact)
        groups["exact_run"] = history_dataset(exact.history, track.scorer.problem)
        ends = say_ends(groups["final"])
    attrs = {
        "reliable": int(bool((along["reliable"] == 1).all())),
        "reasons": reasons,
        "verdict": f"{say_reliability(along, reasons)} {say_usable_along(along)} {ends}",
        "answers": [say_growth(along), say_regret(along, track.n_rounds)],
    }
    return AuditAlong(as_tree({"/": xr.Dataset(attrs=attrs), **groups}))
