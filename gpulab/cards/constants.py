"""The model's constants that no datasheet gives.

Microseconds, bytes and bytes per second. ``FITTED`` names the published measurements, by their id
in ``evidence/published.yml``, that a constant was fitted to, a whole run by the beginning of theirs and
a star; the others are assumed. Only ratios that hold for any plausible value may be graded.
"""

FITTED = {
    "LAUNCH_US": ("triton-add-4096",),
    "KERNEL_FLOOR_US": ("launch-a100-graph",),
    "MEMORY_SHARE": ("stream-scale-h100pcie", "stream-scale-a40", "bwtest-t4-d2d"),
    "ROW_SHARE": ("triton-softmax-torch-12672",),
    "MATRIX_SHARE": ("triton-mm-cublas-2048", "mamf-h100sxm", "mli-mm16-4090"),
    "LINK_EFFICIENCY": ("bwtest-dgxa100-h2d-pinned", "bwtest-dgxa100-d2h-pinned"),
    "PLUGIN_HOP_US": ("ar-a3-16-*", "ar-p5-16-*", "ar-p4de-16-*"),
    "CROSSING_US": ("ar-oke-16-*",),
    "RAMP": ("ar-oke-16-*", "ar-h200-*", "ag-h200-*", "rs-h200-*"),
    "PYTHON_CALL_US": ("ar-h200-*",),
    "PAGEABLE_BYTES_PER_S": ("bwtest-dgxa100-h2d-pageable", "bwtest-dgxa100-d2h-pageable"),
}

LAUNCH_US = 4.7
"""Host time to put one kernel or copy into a stream, PyTorch's own overhead included."""

KERNEL_FLOOR_US = 1.4
"""Device time of a kernel that does next to nothing."""

MEMORY_SHARE = {"T4": 0.75, "L40S": 0.94, "RTX4090": 0.94, "A10": 0.94}
"""Share of the memory's bandwidth that a stream of reads and writes reaches: GDDR6 of Ampere and Ada
by an A40, the T4's own."""

HBM_SHARE = 0.85
"""The same of cards with HBM, by an H100 PCIe."""

ROW_SHARE = 0.82
"""Of the sustained bandwidth, what softmax and layer norms reach, which need a row before they write it."""

MATRIX_SHARE = {"RTX4090": 1.04}
"""Share of the dense peak that a large product reaches. A GeForce's clock rises above its boost."""

USUAL_MATRIX_SHARE = 0.8
"""The same of the other cards, by an A100 and an H100."""

TILE = 64
"""A product is computed in square tiles of so many rows, one to a multiprocessor at a time; the last
wave of them may leave multiprocessors idle."""

COPY_LATENCY_US = 8.0
"""Device time of a host-device copy of no bytes."""

SYNC_US = 2.0
"""Host time of a synchronising call that has nothing to wait for."""

CALL_US = 0.5
"""Host time of an event record, a query, a wait that only the device sees."""

CUDA_MALLOC_US = 100.0
"""Host time of one cudaMalloc; what the caching allocator saves."""

PAGEABLE_BYTES_PER_S = 10e9
"""One core's copy into page-locked memory: the driver's staging buffer, or ``pin_memory()``'s."""

ASYNC_PAGEABLE_BYTES = 64 * 1024
"""From pageable memory to the card, up to so much, the call returns at once: CUDA programming guide,
"Asynchronous concurrent execution"."""

HOST_ALLOC_US = 100.0
"""Host time of one cudaHostAlloc, besides its pages."""

HOST_ALLOC_BYTES_PER_S = 1.6e9
"""Page-locking new memory: github.com/pytorch/pytorch/pull/197868, 12 blocks of 64 MiB in 494.8 ms."""

PLUGIN_HOP_US = 55.3
"""What a hop between nodes takes beside NCCL's own latency over a cloud's network of its own, which NCCL reaches by a plugin
(Amazon's EFA, Google's FasTrak): the median of three machines, which differ by three times. Plain sockets are taken to be no faster."""

CROSSING_US = 11.3
"""What a collective that leaves its node takes beside NCCL's own latency, once."""

RAMP = 0.45
"""Of what a pipeline of chunks takes until its links are full, the chunks being of the best size: what collectives take."""

PYTHON_CALL_US = 22.0
"""What a benchmark in Python times beside a collective, with events around one call at a time."""

LINK_EFFICIENCY = 0.8
"""Share of the host link's peak that a copy of pinned memory reaches."""

QUEUES_PER_POOL = 32
"""Streams that ``torch.cuda.Stream()`` hands out in turn, for each priority: ``kStreamsPerPool`` in
PyTorch's c10/cuda/CUDAStream.cpp."""

LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, -3
"""PyTorch takes no more than four priorities of the card's: ``max_compile_time_stream_priorities``."""
