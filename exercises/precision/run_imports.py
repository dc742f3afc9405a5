"""Chapter "Number formats and mixed precision": what its kernels import beforehand."""

PRELOAD = ("torch._dynamo",)
"""What an optimizer imports when it is first used."""
