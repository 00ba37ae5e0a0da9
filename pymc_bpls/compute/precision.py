"""Double precision: what is computed in single precision has no Hessian to trust, and JAX does not say which it uses."""

from __future__ import annotations

import jax

from pymc_bpls.errors import ModelError


def require_double() -> None:
    """Refuse to go on where JAX's 64 bits are off, by floatX at PyTensor's import or by another library since then."""
    if not jax.config.read("jax_enable_x64"):
        raise ModelError(
            "JAX computes in single precision: jax_enable_x64 is off, by another library or by floatX when PyTensor was "
            'imported. Switch it on with jax.config.update("jax_enable_x64", True).'
        )
