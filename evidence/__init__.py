"""Measures a GPU and writes what it found beside this file: ``make evidence``.

This package is no part of ``gpulab``: to the virtual device its code is a program like any
other, so the same measurement runs on the model's clock.
"""
