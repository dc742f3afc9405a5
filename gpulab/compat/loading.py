"""A DataLoader's iterators, its workers' loops and what passes between them."""

from torch._utils import ExceptionWrapper as ExceptionWrapper
from torch.utils.data import dataloader
from torch.utils.data._utils import pin_memory, worker
from torch.utils.data._utils.worker import WorkerInfo as WorkerInfo

from gpulab.compat.places import Place

BaseIterator = dataloader._BaseDataLoaderIter
InProcessIterator = dataloader._SingleProcessDataLoaderIter
WorkersIterator = dataloader._MultiProcessingDataLoaderIter
NEXT_IN_PROCESS = Place(InProcessIterator, "_next_data")
GET_DATA = Place(WorkersIterator, "_get_data")
"""Gives ``(task, data)``: what a worker sent."""

WORKER_LOOP = Place(worker, "_worker_loop")
PIN_MEMORY_LOOP = Place(pin_memory, "_pin_memory_loop")
WORKER_INFO = Place(worker, "_worker_info")
"""What ``get_worker_info()`` says; None outside a worker."""
StopOfADataset = worker._IterableDatasetStopIteration
"""Sent for data where an iterable dataset has ended in a worker."""
ResumeIteration = worker._ResumeIteration
"""Sent to a worker that lives on, at the beginning of an epoch."""
