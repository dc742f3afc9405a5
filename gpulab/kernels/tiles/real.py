"""Arguments on a real GPU, and their copies on the host for the counted run. Untested on a GPU."""

from gpulab.kernels.simt.gpu import runs_here, twins


def on_gpu(arguments: dict) -> bool:
    """Whether a real card holds one of the tensors."""
    return runs_here(arguments.values())


def host_copies(arguments: dict) -> dict:
    """The same arguments in host memory; tensors that share a storage share one there too."""
    return dict(zip(arguments, twins(arguments.values())))
