"""Laplace's approximation of the posterior as the user sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bpls.engine.modes.mode import Mode
from pymc_bpls.engine.newton.curvature import LocalGaussian
from pymc_bpls.model.density import Parameters
from pymc_bpls.text.summary import Summary

_SHOWN = 15


@dataclass(frozen=True, repr=False)
class LaplaceFit:
    """The Gaussian approximation of the posterior of θ given D at its mode; `print` it first.

    Attributes
    ----------
    mode : xarray.Dataset
        The free variables at the mode of the *unconstrained* density (with Jacobian), on their own scale.
    unconstrained : xarray.DataArray, shape (parameter,)
        The mode itself.
    hessian : xarray.DataArray, shape (parameter, parameter_bis)
        −∇² of the log-posterior there, made when it is asked for.
    sd : xarray.DataArray, shape (parameter,)
        Standard deviations of the unconstrained parameters, the square roots of the diagonal of the Hessian's inverse.
    log_evidence : float or None
        Laplace's log p(D); None under an improper prior. In a hierarchy it can be off by several nats: EP's is
        `score("marginal_likelihood").attrs["log_normalizer"]`, and `exact("marginal_likelihood")` has the sampled one.
    converged : bool
    diagnostics : dict
        Newton decrement, steps, condition number of the scaled Hessian: of θ, or of the labeled rows' coordinates where these
        are fewer than parameters.
    other_modes : str
        What a search for other modes found, in words.
    units : ndarray, shape (parameter,), or float
        What one of each parameter of the Gaussian is in PyMC's numbers, in which all of the above are.

    See Also
    --------
    BPLS.fit : makes it.

    References
    ----------
    .. [1] Tierney, L. and Kadane, J. B. (1986). Accurate approximations for posterior moments and marginal densities. JASA 81,
       82-86. https://doi.org/10.1080/01621459.1986.10478240
    """

    mode: xr.Dataset
    unconstrained: xr.DataArray
    gaussian: LocalGaussian
    log_evidence: float | None
    converged: bool
    diagnostics: dict[str, float]
    other_modes: str
    units: np.ndarray | float = 1.0

    @property
    def hessian(self) -> xr.DataArray:
        """−∇² of the log-posterior at the mode."""
        labels = self.unconstrained["parameter"].to_numpy()
        coords = {"parameter": labels, "parameter_bis": labels}
        hessian = self.gaussian.hessian / np.outer(self.units, self.units)
        return xr.DataArray(hessian, dims=("parameter", "parameter_bis"), coords=coords)

    @property
    def sd(self) -> xr.DataArray:
        """Standard deviation of each unconstrained parameter."""
        return self.unconstrained.copy(data=self.units * self.gaussian.sd)

    @property
    def table(self) -> pd.DataFrame:
        """Mode and standard deviation of each unconstrained parameter."""
        index = pd.Index(self.unconstrained["parameter"].to_numpy(), name="unconstrained parameter")
        return pd.DataFrame({"mode": self.unconstrained.to_numpy(), "sd": self.sd.to_numpy()}, index=index)

    def draws(self, draws: int = 1000, *, random_seed: int | np.random.Generator | None = None) -> xr.DataArray:
        """Draws of the unconstrained parameters from the approximation, shape (draw, parameter)."""
        theta = self.units * self.gaussian.draws(draws, np.random.default_rng(random_seed))
        labels = self.unconstrained["parameter"].to_numpy()
        return xr.DataArray(theta, dims=("draw", "parameter"), coords={"parameter": labels})

    def __str__(self) -> str:
        return str(self._summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self._summary()._repr_html_()

    def _summary(self) -> Summary:
        """What to trust it for, and mode and standard deviation (of H⁻¹) of each unconstrained parameter."""
        evidence = "none (improper prior)" if self.log_evidence is None else f"{self.log_evidence:.3f} by Laplace's method"
        table = self.table
        hidden = len(table) - _SHOWN
        sentences = [
            f"LaplaceFit of {len(table)} parameters: log evidence {evidence}, {'' if self.converged else 'not '}converged",
            *([f"{hidden} more parameters are in unconstrained and hessian."] if hidden > 0 else []),
            f"Newton decrement {self.diagnostics['decrement']:.1e} after {self.diagnostics['steps']:.0f} steps, condition "
            f"number {self.diagnostics['condition']:.1e}. Variables on their own scale are in mode.",
            f"Other modes: {self.other_modes}.",
        ]
        return Summary(sentences, table[:_SHOWN])


def as_fit(mode: Mode, parameters: Parameters, log_evidence: float | None, others: str) -> LaplaceFit:
    """A mode as the user sees it."""
    theta = parameters.unconstrained(mode.theta)
    return LaplaceFit(
        mode=parameters.named(mode.theta),
        unconstrained=xr.DataArray(theta, dims="parameter", coords={"parameter": list(parameters.labels)}),
        gaussian=mode.gaussian,
        log_evidence=log_evidence,
        converged=True,
        diagnostics={
            "decrement": mode.decrement,
            "steps": float(mode.steps),
            "condition": mode.curvature.condition_number,
        },
        other_modes=others,
        units=parameters.units,
    )
