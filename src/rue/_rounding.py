"""Constants of floating-point arithmetic, for bounds on rounding errors."""

# The largest relative error of one rounded operation.
UNIT_ROUNDOFF = 2.0**-53
# Twice that, so that products of such errors are covered as well.
TWICE_ROUNDOFF = 2 * UNIT_ROUNDOFF
# Numbers below this lose precision in underflow; it is added to every bound on a rounding error.
UNDERFLOW = 1e-290
