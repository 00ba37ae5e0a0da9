"""The remainder's order: `python -m validation.remainder`.

Rodemann et al. drop ℓ_D(θ̃_i) from Eq. 6 to get Eq. 7, as a term of order n⁻². This measures how fast it, and the errors of both
criteria against exact integrals (`quadrature`), fall with n.
"""
