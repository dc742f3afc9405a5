"""Private names of PyTorch and internals of Triton, each once: what a new release of either may move.

Nothing else of gpulab, autograder, evidence or an exercise's ``run`` and ``judge`` names them; tests/project/test_private_names.py
holds them to it. A name here is PyTorch's own without its underscore, or says what PyTorch's does not. A constant is what
stood there when it was imported; a :class:`~gpulab.compat.places.Place` and a function look when they are asked.
Modules are apart where their imports cost: ``dynamo``, ``inductor``, ``distributed``, ``distributed_tensor``, ``triton``.
"""
