"""What the book's own pages need: the ledger of claims. Installed with the `course` extra."""

from gpulab.book.claims import Claim, Ledger, claims_table

__all__ = ["Claim", "Ledger", "claims_table"]
