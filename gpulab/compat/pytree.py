"""Trees of lists, tuples and dictionaries, mapped and flattened as PyTorch does."""

from torch.utils._pytree import tree_flatten as tree_flatten
from torch.utils._pytree import tree_map as tree_map
from torch.utils._pytree import tree_map_only as tree_map_only
