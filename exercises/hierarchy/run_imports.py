"""Chapter "The memory hierarchy": what its kernels import beforehand."""

PRELOAD = ("torch._inductor.config",)
"""What ``torch.use_deterministic_algorithms`` imports when it is first called."""
