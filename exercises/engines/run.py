"""Chapter "Serving engines": what its kernels import beforehand."""

PRELOAD = ("gpulab.cuda.device.install", "gpulab.kernels.tiles.facade")
"""What paged_attention's scenario and its cell of the notebook import on first use."""
