"""Chapter "Trading and debugging memory": what its kernels import beforehand."""

PRELOAD = ("torch._dynamo",)
"""What ``torch.utils.checkpoint`` imports when it is first used."""
