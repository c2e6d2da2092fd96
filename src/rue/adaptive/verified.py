"""Certificates that were verified: no other one leaves a search. The cache of a run keeps the best."""

from dataclasses import dataclass, replace
from weakref import WeakSet

from rue.active import Part
from rue.certificate import Certificate, proved_by
from rue.errors import NotProved
from rue.solution import Cache, Run


def verified(part: Part, proof: Certificate | None, run: Run) -> Certificate | None:
    """Return a verified proof, with the bound that was proved less the last digits, or None. The cache keeps it."""
    if proof is None:
        return None
    try:
        proved = proved_by(part.model, proof, None if part.tail is None else part.cap)
    except NotProved:  # rounding can prevent a proof where costs are many orders of magnitude apart
        return None
    certificate = replace(proof, bound=proved * (1 - 1e-12), tail=part.tail, sample=part.sample)
    verified_of(part.model, run.cache).add(certificate)
    if certificate.objective == "regret" and part.tail is None:
        run.cache.remember(part.model, "regret bound", BestCertificate).add(certificate)
    return certificate


def verified_of(model: object, cache: Cache) -> "WeakSet[Certificate]":
    """Return the certificates of a model that were verified."""
    return cache.remember(model, "verified", WeakSet)


@dataclass(eq=False)
class BestCertificate:
    """The best certificate of a model so far, and the most beliefs of a search for one."""

    certificate: Certificate | None = None
    beliefs: float = 0.0

    def add(self, certificate: Certificate) -> None:
        """Keep a certificate if it is better."""
        if self.certificate is None or certificate.bound > self.certificate.bound:
            self.certificate = certificate
