"""Inductor: its settings, a graph on its way to code, the nodes of its schedule. Seconds to import."""

import torch._functorch.config
import torch.utils._triton
from torch._inductor import config as config
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.graph import GraphLowering as GraphLowering
from torch._inductor.ir import MultiOutput as MultiOutput
from torch._inductor.scheduler import ExternKernelSchedulerNode as ExternKernelSchedulerNode
from torch._inductor.scheduler import NopKernelSchedulerNode as NopKernelSchedulerNode
from torch._inductor.utils import Placeholder

from gpulab.compat.places import Place

autograd_config = torch._functorch.config
COMPILE_TO_MODULE = Place(GraphLowering, "compile_to_module")
DEFINE_KERNEL = Place(TritonScheduling, "define_kernel")
TRITON_HASH = Place(torch.utils._triton, "triton_hash_with_backend")
KERNEL_NAME = str(Placeholder.KERNEL_NAME)
"""Stands for its name in a kernel's source."""
