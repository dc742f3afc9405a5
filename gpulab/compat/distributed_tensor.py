"""DTensor's rules of sharding, and what is built on them."""

import torch.distributed.tensor._op_schema as schema
import torch.distributed.tensor.experimental as experimental

from gpulab.compat.places import Place

REBUILD_FROM_META = Place(schema, "_rebuild_tensor_from_dtensor_meta")
"""A tensor of the spec's shape, strides and dtype on the mesh's device."""
CONTEXT_PARALLEL = Place(experimental, "context_parallel")
