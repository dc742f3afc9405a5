"""Chapter "Anatomy of LLM inference": what its kernels import beforehand."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What is imported when a card is first used."""
