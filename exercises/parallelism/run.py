"""Chapter "Tensor, pipeline and 3D parallelism": what its kernels import beforehand."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""
