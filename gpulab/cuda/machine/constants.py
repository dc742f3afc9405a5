"""The model's constants that no datasheet gives. Assumed; no run of ours has fitted them.

Microseconds, bytes and bytes per second. They are of the order that the literature reports
for current server cards; only ratios that hold for any plausible value may be graded.
"""

LAUNCH_US = 4.0
"""Host time to put one kernel or copy into a stream, PyTorch's own overhead included."""

KERNEL_FLOOR_US = 2.0
"""Device time of a kernel that does next to nothing."""

COPY_LATENCY_US = 8.0
"""Device time of a host-device copy of no bytes."""

SYNC_US = 2.0
"""Host time of a synchronising call that has nothing to wait for."""

CALL_US = 0.5
"""Host time of an event record, a query, a wait that only the device sees."""

CUDA_MALLOC_US = 100.0
"""Host time of one cudaMalloc; what the caching allocator saves."""

PAGEABLE_BYTES_PER_S = 8e9
"""Host-device copies from or to pageable memory: one core's copy into the staging buffer."""

LINK_EFFICIENCY = 0.8
"""Share of the host link's peak that a copy of pinned memory reaches."""

THREADS_PER_MULTIPROCESSOR = 2048
"""Resident threads; decides how much of the card a small kernel fills. 1024 on a T4."""

QUEUES_PER_POOL = 32
"""Streams that ``torch.cuda.Stream()`` hands out in turn, for each priority: ``kStreamsPerPool`` in
PyTorch's c10/cuda/CUDAStream.cpp."""

LOWEST_PRIORITY, HIGHEST_PRIORITY = 0, -3
"""PyTorch takes no more than four priorities of the card's: ``max_compile_time_stream_priorities``."""
