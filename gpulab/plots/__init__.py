"""Figures that read well in light and dark, in the book and in a notebook."""

from gpulab.plots.figure import Figure

__all__ = ["Figure"]
