"""The process group that stands in the place of NCCL's and gloo's.

A ``Backend`` cannot be written in Python, a ``ProcessGroup`` can: PyTorch's Python and C++ (the Reducer, functional
collectives) call these methods. Their names differ by version; the older ones are aliases.
"""

import torch
import torch.distributed as dist

from gpulab.collectives.rank.nccl import NcclRules, NoRules
from gpulab.collectives.rank.posting import Posting
from gpulab.collectives.rank.work import Several, Work
from gpulab.compat.distributed import fake_process_group
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor
_REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


class BrokerGroup(dist.ProcessGroup):
    """A group of ranks whose bytes pass the broker."""

    backend = "nccl"
    devices = ("cuda",)
    rules = NcclRules()

    class Options:
        """What ``ProcessGroupNCCL.Options`` offers to be set."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            self.is_high_priority_stream = is_high_priority_stream
            self._timeout = self.split_from = self.split_color = None
            self.global_ranks_in_group: list[int] = []
            self.group_name = ""

    def __init__(self, store, rank: int, size: int, options=None, timeout=None) -> None:
        super().__init__(rank, size)  # with a store pybind11 makes no subclass
        self.options = options or BrokerGroup.Options()
        self._posting = Posting(self, rank, size)
        # Object collectives ask C++ which devices the group serves: it reads registered backends.
        fake = fake_process_group(rank, size)
        for device in self.devices:
            self._register_backend(torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, fake)

    @property
    def global_ranks(self) -> tuple[int, ...]:
        """The ranks of the whole job that are in this group, in its order."""
        return tuple(self.options.global_ranks_in_group or range(self.size()))

    def getBackendName(self) -> str:
        return self.backend

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._posting.sequence

    # ---- what all of them get

    def allreduce(self, tensors, opts=None):
        tensors, reduction = self._reduced(_listed(tensors), opts)
        return self._post("all_reduce", tensors, tensors, reduces=reduction)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, opts=None):
        tensors = self.rules.contiguous(_listed(tensors))
        self.rules.convertible(tensors, complex_too=True)
        mine = tensors if opts.rootRank == self.rank() else []
        return self._post("broadcast", mine, tensors, whole=_bytes(tensors), root=opts.rootRank)

    def allgather(self, output_lists, inputs, opts=None):
        return self._all_gather(output_lists[0], self.rules.contiguous(inputs))

    def all_gather_single(self, output, input, opts=None):
        output, input = self.rules.contiguous([output, input])
        return self._all_gather_into(output, input)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        outputs, inputs = (self.rules.unchecked(list(tensors), "all_gather") for tensors in (outputs, inputs))
        return Several([self._all_gather_into(o, i) for o, i in zip(outputs, inputs, strict=True)])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather_into(self, output: Tensor, input: Tensor) -> Work:
        self.rules.gathered(output, input, self.size())
        return self._all_gather([output], [input])

    def _all_gather(self, outputs: list, inputs: list) -> Work:
        self.rules.convertible(inputs)
        takes = [t.nbytes for t in outputs] if len(outputs) == self.size() else _shares(outputs[0].nbytes, self.size())
        gives = [_bytes(inputs)] * self.size()
        return self._post("all_gather", inputs, outputs, whole=_bytes(outputs), gives=gives, takes=takes)

    def barrier(self, opts=None):
        return self._post("barrier", [], [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        self.barrier().wait()

    # ---- what is different for each

    def reduce_scatter(self, outputs, input_lists, opts=None):
        gives = [t.nbytes for t in input_lists[0]]
        return self._reduce_scatter(self.rules.contiguous(outputs), input_lists[0], gives, opts)

    def reduce_scatter_single(self, output, input, opts=None):
        self.rules.scattered(output, input, self.size())
        output, input = self.rules.unchecked([output, input], "reduce_scatter")
        return self._reduce_scatter([output], [input], _shares(input.nbytes, self.size()), opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return Several([self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(self, outputs: list, inputs: list, gives: list[int], opts) -> Work:
        takes, reduction = [_bytes(outputs)] * self.size(), _reduction(opts)
        self.rules.reducible(inputs, reduction)
        return self._post("reduce_scatter", inputs, outputs, reduces=reduction, gives=gives, takes=takes)

    def all_to_all_single(self, output, input, output_splits=None, input_splits=None, opts=None):
        output, input = self._exchanged([output, input])
        self.rules.split({"input": (input, input_splits), "output": (output, output_splits)}, self.size())
        gives = _rows(input, input_splits, self.size())
        takes = _rows(output, output_splits, self.size())
        return self._post("all_to_all", [input], [output], whole=-1, gives=gives, takes=takes)

    alltoall_base = all_to_all_single

    def _exchanged(self, tensors) -> list[Tensor]:
        tensors = self.rules.contiguous(list(tensors))
        self.rules.sendable(tensors)
        return tensors

    def alltoall(self, outputs, inputs, opts=None):
        outputs, inputs = self._exchanged(outputs), self._exchanged(inputs)
        gives, takes = [t.nbytes for t in inputs], [t.nbytes for t in outputs]
        return self._post("all_to_all", inputs, outputs, whole=-1, gives=gives, takes=takes)

    # ---- with a root

    def reduce(self, tensors, opts=None):
        tensors, reduction = self._reduced(list(tensors), opts)
        outputs = tensors if opts.rootRank == self.rank() else []
        return self._post("reduce", tensors, outputs, reduces=reduction, root=opts.rootRank)

    def gather(self, output_lists, inputs, opts=None):
        inputs = self._exchanged(inputs)
        outputs = output_lists[0] if opts.rootRank == self.rank() else []
        self.rules.of_one_size("gather", outputs, inputs[0])
        outputs = self.rules.unchecked(outputs, "gather")
        gives, takes = [_bytes(inputs)] * self.size(), [t.nbytes for t in outputs]
        whole = _bytes(inputs) * self.size()
        return self._post("gather", inputs, outputs, whole=whole, root=opts.rootRank, gives=gives, takes=takes)

    def scatter(self, outputs, input_lists, opts=None):
        self.rules.sendable(outputs)
        inputs = input_lists[0] if opts.rootRank == self.rank() else []
        self.rules.of_one_size("scatter", inputs, outputs[0])
        inputs, outputs = self.rules.unchecked(inputs, "scatter"), self.rules.unchecked(outputs, "scatter")
        gives, takes = [t.nbytes for t in inputs], [_bytes(outputs)] * self.size()
        whole = _bytes(outputs) * self.size()
        return self._post("scatter", inputs, outputs, whole=whole, root=opts.rootRank, gives=gives, takes=takes)

    # ---- messages

    def send(self, tensors, peer, tag=0):
        tensors = self.rules.message(tensors)
        return self._post("send", tensors, [], peer=self.global_ranks[peer], tag=tag)

    def recv(self, tensors, peer, tag=0):
        tensors = self.rules.message(tensors)
        return self._post("recv", [], tensors, whole=_bytes(tensors), peer=self.global_ranks[peer], tag=tag)

    # ---- many as one

    def _start_coalescing(self, device=None) -> None:
        self._posting.gather_up()

    def _end_coalescing(self, device=None):
        return Several(self._posting.gathered())

    # ---- its end

    def abort(self) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def perform_nocolor_split(self, device) -> None:
        pass

    def eager_connect_single_device(self, device) -> None:
        pass

    def _reduced(self, tensors: list[Tensor], opts) -> tuple[list[Tensor], str]:
        reduction = _reduction(opts)
        tensors = self.rules.contiguous(tensors)
        self.rules.reducible(tensors, reduction)
        return tensors, reduction

    def _post(self, operation: str, inputs: list, outputs: list, **what) -> Work:
        return self._posting.post(operation, list(inputs), list(outputs), **what)


class GlooGroup(BrokerGroup):
    """The same under gloo's name: it takes host tensors too, and keeps messages of different tags apart."""

    backend = "gloo"
    devices = ("cpu", "cuda")
    rules = NoRules()

    def __init__(self, store, rank: int, size: int, timeout=None, enable_reconfigure: bool = False) -> None:
        if enable_reconfigure:  # from PyTorch 2.14 on
            raise NotImplementedError("a group whose ranks change")
        super().__init__(store, rank, size)

    def getBackendName(self) -> str:
        # C++ takes what calls itself gloo for its own class and reads its fields; get_backend() does not ask here.
        return "broker"


def _listed(tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _bytes(tensors) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _shares(nbytes: int, size: int) -> list[int]:
    return [nbytes // size] * size


def _rows(tensor: Tensor, splits, size: int) -> list[int]:
    if not splits:
        return _shares(tensor.nbytes, size)
    row = tensor.nbytes // max(tensor.shape[0], 1)
    return [rows * row for rows in splits]


def _reduction(opts) -> str:
    op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for name in _REDUCTIONS:
        if op == getattr(dist.ReduceOp, name):
            return name
    raise NotModelled(f"a reduction other than {', '.join(_REDUCTIONS)} (PREMUL_SUM among them)")
