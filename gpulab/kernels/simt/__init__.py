"""Runs Numba-CUDA source without a GPU: a block's threads in lockstep, as NumPy vectors.

The way through it: ``source`` reads the kernel, ``language`` refuses what Numba would not
compile, ``expressions`` and ``statements`` turn the rest into closures once; ``launcher`` checks
CUDA's limits and runs them over ``batch``, where ``arrays`` answers every access, ``races``
remembers who used what, ``releases`` what fences and atomics put in order, and ``requests`` counts
sectors and banks. Where threads wait for each other in a loop (``spin_wait``) the launch begins again
warp by warp (``warp_scheduler``). ``signatures``, ``views``, ``iteration`` and ``host`` are what their names say.

Numbers follow Numba's rules (``values``): integers are at least 64 bits wide in arithmetic,
literals are int64 and float64, float32 stays float32 until it meets a wider number.
"""
