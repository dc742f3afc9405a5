"""What an author of exercises uses: mistakes, alternatives, the pipeline from text, the gates."""

from autograder.authoring.mistakes import alternative, edited, equivalent_mutant, mistake, unbreakable

__all__ = ["alternative", "edited", "equivalent_mutant", "mistake", "unbreakable"]
