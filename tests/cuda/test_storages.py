"""The bytes behind a device tensor: none reach the host without a copy that the machine sees."""

import io
import pickle
import queue
from multiprocessing.reduction import ForkingPickler

import numpy
import pytest
import torch

import gpulab.cuda
from gpulab import observe

VALUES = [0.0, 1.0, 2.0, 3.0]
READS = {
    "untyped index": lambda x: x.untyped_storage()[4],
    "untyped list": lambda x: x.untyped_storage().tolist(),
    "untyped bytes": lambda x: bytes(x.untyped_storage()),
    "untyped cpu": lambda x: x.untyped_storage().cpu(),
    "typed index": lambda x: x.storage()[1],
    "typed list": lambda x: x.storage().tolist(),
    "host storage copy_": lambda x: torch.zeros(4).untyped_storage().copy_(x.untyped_storage()),
    "pickle": pickle.dumps,
    "pickle of a storage": lambda x: pickle.dumps(x.untyped_storage()),
    "torch.save": lambda x: torch.save(x, io.BytesIO()),
    "list of scalars": lambda x: torch.tensor([x[0], x[1]]),
    "iteration": lambda x: [float(v) for v in x],
    "unbound cpu": lambda x: torch.Tensor.cpu(x),
    "unbound tolist": lambda x: torch.Tensor.tolist(x),
}
REFUSED = {
    "numpy.asarray": (numpy.asarray, TypeError),
    "numpy.array of a list": (lambda x: numpy.array([x, x]), TypeError),
    "memoryview": (memoryview, TypeError),
    "memoryview of a storage": (lambda x: memoryview(x.untyped_storage()), TypeError),
    "torch.frombuffer": (lambda x: torch.frombuffer(x, dtype=torch.float32), ValueError),
    "numpy": (lambda x: torch.Tensor.numpy(x), TypeError),
}


def arange():
    return torch.arange(4.0, device="cuda")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("name", READS)
def test_reading_the_bytes_waits_and_is_a_copy(virtual, name):
    x = arange()
    with observe() as seen:
        READS[name](x)
    assert seen.waits and {c.kind for c in seen.copies} >= {"DtoH"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses_is_refused(cuda, name):
    read, error = REFUSED[name]
    with pytest.raises(error):
        read(arange())


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_storage_has_the_values_of_its_tensor(cuda):
    x = arange()
    assert x.storage().tolist() == VALUES and x.storage()[2] == 2.0
    assert torch.frombuffer(bytearray(bytes(x.untyped_storage())), dtype=torch.float32).tolist() == VALUES


def test_a_storage_says_where_it_is(cuda):
    storage = arange().untyped_storage()
    assert storage.device == torch.device("cuda", 0) and storage.is_cuda
    assert storage.cpu().device.type == "cpu" and not storage.cpu().is_cuda


def test_a_storage_is_written_and_copied_on_the_card(cuda):
    x = arange()
    twin = x.untyped_storage().clone()
    x.untyped_storage().fill_(0)
    assert x.tolist() == [0.0] * 4 and twin.is_cuda
    x.untyped_storage().copy_(twin)
    assert x.tolist() == VALUES
    x.untyped_storage()[3] = 63
    assert x.tolist()[0] == 0.5


def test_a_storage_goes_to_the_card(cuda):
    assert torch.arange(4.0).untyped_storage().cuda().is_cuda


def test_a_resized_storage_takes_and_gives_memory(cuda):
    x = torch.ones(1 << 20, device="cuda")
    before = torch.cuda.memory_allocated()
    x.untyped_storage().resize_(0)
    assert torch.cuda.memory_allocated() == before - (4 << 20)
    x.untyped_storage().resize_(4 << 20)
    assert torch.cuda.memory_allocated() == before


def test_a_pickled_tensor_comes_back_to_the_card(cuda):
    again = pickle.loads(pickle.dumps(arange()))
    assert again.is_cuda and again.tolist() == VALUES


@pytest.mark.parametrize("smuggle", [lambda x: torch.FloatTensor(x.storage()), lambda x: torch.Tensor(x.storage())])
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_host_tensor_over_device_memory_is_refused(virtual, smuggle):
    x = arange()
    with pytest.raises((gpulab.cuda.NotModelled, TypeError, RuntimeError)):
        with observe():
            smuggle(x).sum()
    with pytest.raises((gpulab.cuda.NotModelled, TypeError, RuntimeError)):
        smuggle(x).tolist()


SENT = {"tensor": arange, "parameter": lambda: torch.nn.Parameter(arange())}


@pytest.mark.parametrize("what", SENT)
def test_a_device_tensor_is_not_sent_to_another_process(virtual, what):
    with pytest.raises(gpulab.cuda.NotModelled, match="another process"):
        ForkingPickler.dumps(SENT[what]())


def test_a_queue_between_processes_says_so_where_it_is_fed(virtual, capfd):
    channel = torch.multiprocessing.get_context("fork").Queue()
    channel.put(arange())
    with pytest.raises(queue.Empty):
        channel.get(timeout=1)
    channel.close()
    channel.join_thread()
    assert "NotModelled: a device tensor sent to another process" in capfd.readouterr().err


def test_a_storage_on_the_card_is_not_pickled_for_another_process(cuda):
    with pytest.raises(RuntimeError, match="Cannot pickle CUDA storage"):
        ForkingPickler.dumps(arange().untyped_storage())


@pytest.mark.parametrize("call", [torch.utils.dlpack.to_dlpack, torch._C._to_dlpack, torch.from_dlpack])
def test_dlpack_is_not_modelled(virtual, call):
    exported = {"to_dlpack": torch.utils.dlpack.to_dlpack, "_to_dlpack": torch._C._to_dlpack}
    with pytest.raises(gpulab.cuda.NotModelled, match="DLPack"):
        exported.get(call.__name__, call)(arange())
