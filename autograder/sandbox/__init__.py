"""Kernels for submissions: forked warm, inside a sandbox, under limits."""
