"""What the book's own pages need: the ledger of claims, functions side by side. Installed with the `course` extra."""

from gpulab.book.claims import Claim, Ledger, claims_table
from gpulab.book.contrast import Contrast, contrast

__all__ = ["Claim", "Contrast", "Ledger", "claims_table", "contrast"]
