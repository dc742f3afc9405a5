"""What the book's own pages need: the ledger of claims, functions side by side. Installed with the `course` extra."""

from gpulab.book.claims import Claim, Ledger, claims_table
from gpulab.book.contrast import Contrast, contrast
from gpulab.book.deck import Cards, interview_cards, interview_deck, stages
from gpulab.book.interview import Bank, Card

__all__ = [
    "Bank",
    "Card",
    "Cards",
    "Claim",
    "Contrast",
    "Ledger",
    "claims_table",
    "contrast",
    "interview_cards",
    "interview_deck",
    "stages",
]
