"""Chapter "Capstone: fix a slow, unstable job": what its kernels import beforehand."""

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
