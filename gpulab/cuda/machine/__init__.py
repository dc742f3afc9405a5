"""The modelled machine: clocks, queues, copy engines, memory. It knows nothing of PyTorch."""
