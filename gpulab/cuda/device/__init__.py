"""The virtual card in PyTorch's terms: its tensors, factories, streams, memory and clock."""
