"""What an answer may use. All else is flagged: a list of what is harmless stays true when a library grows."""

LIBRARIES = frozenset(
    "torch numpy gpulab triton numba matplotlib mpl_toolkits cycler ipywidgets IPython tqdm "
    "einops pandas PIL scipy seaborn sklearn torchinfo torchvision transformers".split()
)
"""Third-party packages that a notebook may import: what the course installs, and what many have beside it."""

STANDARD = frozenset(
    "__future__ abc argparse array base64 bisect bz2 calendar cmath collections colorsys contextlib copy csv dataclasses datetime "
    "decimal difflib enum errno fnmatch fractions functools gc getpass glob graphlib gzip hashlib heapq hmac html io itertools json "
    "keyword locale logging math multiprocessing numbers operator os pathlib platform pprint queue random re secrets shutil "
    "statistics string struct sys tarfile tempfile textwrap time timeit token traceback types typing unicodedata uuid warnings weakref "
    "zipfile zlib zoneinfo".split()
)
"""Modules of the standard library that a notebook may import. Not among them: what starts threads or processes, opens sockets,
maps memory, walks the heap, or makes and changes code."""

PARTS = {
    "multiprocessing": frozenset("Value Array RawValue RawArray cpu_count".split()),
    "os": frozenset(
        "O_CREAT O_DIRECTORY O_EXCL O_RDONLY O_RDWR O_TRUNC O_WRONLY PathLike SEEK_CUR SEEK_END SEEK_SET SEEK_DATA access "
        "chdir close closerange cpu_count environ error fdatasync fdopen fsdecode fsencode fspath fstat fsync ftruncate "
        "getcwd getenv getpid getppid linesep link listdir lseek lstat makedirs mkdir name open path pread pwrite read "
        "readlink remove removedirs rename renames replace rmdir scandir sched_getaffinity sep stat statvfs strerror symlink "
        "sync truncate umask uname unlink urandom utime walk write".split()
    ),
    "sys": frozenset(
        "argv byteorder executable exit float_info getdefaultencoding getrecursionlimit getrefcount getsizeof hash_info int_info maxsize "
        "platform stderr stdin stdout version version_info".split()
    ),
    "types": frozenset("GeneratorType MappingProxyType NoneType SimpleNamespace".split()),
    "operator": frozenset(
        "add and_ concat contains countOf eq floordiv ge getitem gt indexOf invert itemgetter le lt matmul mod mul ne neg "
        "not_ or_ pow setitem sub truediv truth xor".split()
    ),
    "weakref": frozenset("WeakKeyDictionary WeakMethod WeakSet WeakValueDictionary finalize proxy ref".split()),
    "IPython": frozenset({"display"}),
    "gc": frozenset(["collect", "disable", "enable", "isenabled"]),
    "traceback": frozenset(["format_exc", "print_exc"]),
    "tqdm": frozenset("auto notebook tqdm trange tqdm_notebook".split()),
}
"""Of these modules the parts that say nothing of frames, modules, processes or hooks."""

REACHED_THROUGH_OTHERS = frozenset(
    "os sys threading _thread multiprocessing subprocess socket ctypes gc inspect mmap importlib builtins types pickle weakref "
    "operator torch numpy gpulab autograder".split()
)
"""Modules that many others import, and that can be had from those."""

MODULES = frozenset(
    "torch torch.accelerator.* torch.amp.* torch.ao.* torch.autograd torch.autograd.gradcheck torch.autograd.function torch.autograd.functional "
    "torch.autograd.graph torch.backends.* torch.compiler torch.cpu.* torch.cuda torch.cuda.amp.* torch.cuda.graphs torch.cuda.memory torch.cuda.nvtx "
    "torch.cuda.random torch.cuda.streams torch.distributed torch.distributed.algorithms.* torch.distributed.checkpoint.* "
    "torch.distributed.device_mesh torch.distributed.fsdp.* torch.distributed.nn.* torch.distributed.optim.* "
    "torch.distributed.pipelining.* torch.distributed.tensor.* torch.distributions.* torch.fft torch.func torch.functional "
    "torch.linalg torch.masked.* torch.nn.* torch.optim.* torch.profiler torch.quantization.* torch.random torch.return_types "
    "torch.signal.* torch.sparse torch.special torch.storage torch.testing torch.types torch.utils torch.utils.benchmark.* torch.utils.checkpoint "
    "torch.utils.data.* torch.utils.flop_counter torch.utils.hooks torch.utils._pytree torch._dynamo torch.version "
    "numpy numpy.dtypes numpy.exceptions numpy.fft.* numpy.lib numpy.lib.stride_tricks numpy.linalg.* numpy.ma.* numpy.matrixlib.* "
    "numpy.polynomial.* numpy.random.* numpy.testing numpy.typing.* numpy.version triton triton.language.* triton.testing numba numba.cuda "
    "matplotlib matplotlib.animation matplotlib.axes.* matplotlib.cm matplotlib.collections matplotlib.colors "
    "matplotlib.dates matplotlib.figure matplotlib.gridspec matplotlib.lines matplotlib.patches matplotlib.patheffects "
    "matplotlib.pyplot matplotlib.style.* matplotlib.ticker matplotlib.transforms "
    "gpulab gpulab.book gpulab.book.contrast gpulab.capstone gpulab.capstone.catalogue gpulab.capstone.preflight gpulab.cards.cards "
    "gpulab.cards.constants gpulab.cards.links gpulab.cards.multiprocessors gpulab.collectives gpulab.collectives.network.* "
    "gpulab.collectives.structure gpulab.cuda gpulab.cuda.coverage gpulab.evidence gpulab.feeding gpulab.fleet.* gpulab.formats "
    "gpulab.kernels gpulab.kernels.cuda gpulab.kernels.fusion gpulab.kernels.simt.occupancy gpulab.memory gpulab.memory.shapes "
    "gpulab.memory.validation gpulab.model.* gpulab.observe gpulab.parallel gpulab.platforms gpulab.platforms.audit gpulab.plots.* "
    "gpulab.published gpulab.recordings gpulab.serving gpulab.serving.costs gpulab.serving.http.record gpulab.serving.pools "
    "gpulab.serving.validation gpulab.traces.* gpulab.widgets gpulab.widgets.episode_player gpulab.widgets.quiz".split()
)
"""Of these libraries the modules that an answer may use, of gpulab those that pages import; ``.*``: those below it too."""

MODULES_INSIDE = frozenset(
    "_thread builtins ctypes importlib inspect mmap os socket subprocess sys threading torch".split()
)
"""Names by which modules hold other modules, and honest objects hold nothing."""
TO_HOLD_BACK = ("torch", "gpulab", "numpy", "os", "sys")
"""Of other modules a notebook may use the name for something else, as ``for time in times``."""
MODULES_NAMED = MODULES_INSIDE - {"os", "sys", "torch"}
"""Of those the ones that are no label either."""
FREE = frozenset(["torch.nn", "torch.nn.functional"])
"""Modules that may be handed around: who looks for all functions of a kind goes through them."""

NOT_OF_LIBRARIES = (
    "torch.ops torch.classes torch.cuda.cudart torch.from_file "
    "torch.cuda.caching_allocator_alloc torch.distributed.Store torch.distributed.TCPStore torch.distributed.FileStore "
    "torch.distributed.HashStore torch.distributed.PrefixStore "
    "numpy.ctypeslib numpy.memmap numpy.lib.stride_tricks.as_strided numpy.testing.measure numpy.testing.rundocs numpy.testing.runstring functools.update_wrapper "
    "dataclasses.make_dataclass string.Formatter logging.currentframe logging.config logging.handlers typing.get_type_hints typing.ForwardRef os.environ.update os.environ.setdefault "
    "numba.carray numba.farray numba.cfunc numba.extending numba.core IPython.display.Javascript"
).split()
"""Parts of those that none needs."""

MAY_BE_SET = ("torch.backends.", "torch._dynamo.config.", "numpy.random.", "matplotlib.")
"""Prefixes of what is there to be set."""
ENVIRONMENT = (
    "CUBLAS_",
    "CUDA_",
    "GLOO_",
    "LOCAL_RANK",
    "MASTER_",
    "PYTHONHASHSEED",
    "RANK",
    "TRITON_",
    "WORLD_SIZE",
    "HF_",
    "MKL_",
    "NCCL_",
    "OMP_",
    "PYTORCH_",
    "TOKENIZERS_",
    "TORCH_",
)
"""Of ``os.environ`` too: names that begin so."""

PRIVATE = frozenset(
    "_ _parameters _buffers _modules _version _base _cdata _replace _asdict _fields _make _get_closed_form_lr _check _sleep "
    "_pytree _assert _execution_engine _dynamo _LRScheduler _is_view _record_memory_history _dump_snapshot _snapshot "
    "_saved_self _saved_other _saved_result _load_from_state_dict _save_to_state_dict _get_name _apply".split()
)
"""Names with an underscore that their documentation tells people to use, or that a subclass of theirs meets."""
PRIVATE_PREFIX = "_foreach_"
"""PyTorch's operations on lists of tensors, by which an optimizer is written."""

DUNDERS_READ = frozenset(
    "__closure__ __code__ __globals__ __builtins__ __subclasses__ __base__ __bases__ __mro__ mro __wrapped__ __self__ __func__ "
    "__defaults__ __kwdefaults__ __traceback__ __getattribute__ __setattr__ __delattr__ __reduce__ __reduce_ex__ __import__ "
    "__loader__ __spec__ __array_interface__ __cuda_array_interface__ f_back f_locals f_globals f_code f_builtins gi_frame "
    "gi_code cr_frame cr_code ag_frame ag_code tb_frame tb_next co_consts co_code cell_contents ctypes with_traceback".split()
)
"""Attributes that lead from an object to the code that made it, or around what it allows."""

STAND_INS = frozenset(
    "Tensor Parameter Buffer UninitializedParameter ndarray int float complex bool str bytes type ModuleType TorchDispatchMode "
    "TorchFunctionMode".split()
)
"""Bases whose subclasses pass for what they are not."""
NUMBERS = ("numpy.", "fractions.", "decimal.", "numbers.")
"""Where numbers come from, whose subclasses do so too."""

DUNDERS_DEFINED = frozenset(
    "__eq__ __ne__ __bool__ __hash__ __class__ __getattribute__ __instancecheck__ "
    "__subclasscheck__ __torch_function__ __torch_dispatch__ __array__ __array_ufunc__ __array_function__ __del__ __float__ "
    "__init_subclass__ __set_name__ __int__ __index__ __reduce__ __reduce_ex__ __sizeof__".split()
)
"""Methods by which an object answers a judge's comparisons itself, or works when nobody calls it."""

DYNAMIC = frozenset("exec eval compile globals locals __import__ get_ipython breakpoint".split())
STARRED = frozenset(["math", "gpulab"])
"""Modules of which ``import *`` brings nothing to look at."""
SETTERS = frozenset(["delattr", "getattr", "setattr"])
"""Built-in functions that honest code calls by themselves, and hands to no other."""
READS_OF_A_DICTIONARY = frozenset("items keys values get copy".split())
COPIES = frozenset("dict len list print set sorted tuple enumerate iter any all max min".split())
"""Functions and methods that leave a dictionary of attributes as it is."""
NOT_RENAMED = SETTERS | {"type", "vars"}
MAY_BE_HANDED = frozenset(["dir", "getattr", "hasattr", "help", "print", "setattr", "vars"])
"""Functions that take a module: of most of them what they do with it is read."""

WRITES = frozenset(
    "at copyto fill itemset pack_into partition place put put_along_axis putmask readinto resize setfield setitem shuffle sort "
    "__setitem__".split()
)
"""NumPy's functions and methods that write to an array."""

BY_KEY = frozenset(["get", "pop", "setdefault"])
ANEW = frozenset(["__init__", "__setstate__"])
"""Methods that make an object what it was in the beginning, or what somebody says."""

VIEWS = frozenset("asanyarray asarray from_dlpack frombuffer numpy __array__ __dlpack__".split())
"""Methods and functions that give a tensor's memory as NumPy sees it."""

SAME_MEMORY = frozenset("diagonal ravel reshape squeeze swapaxes transpose view".split())

TEXTS = frozenset(["__", "__main__", "__name__", "__key__", "__url__"])
"""Texts with two underscores that are no name of the interpreter's."""

BY_NAME = frozenset("torch torch.nn torch.nn.functional torch.optim torch.optim.lr_scheduler".split())
"""Where an answer may look up what a variable names: a dtype, a layer, an optimizer."""
OPEN_TO_ALL = ("/proc/cpuinfo", "/proc/meminfo", "/dev/null", "/sys/devices/")
"""Files that say what a machine has."""
OF_A_DTYPE = frozenset("itemsize is_floating_point is_complex is_signed".split())
"""What is asked of ``getattr(torch, "float" + bits)``, which names a dtype."""

MADE_OF_TEXT = {"timeit.timeit", "timeit.repeat", "timeit.Timer", "torch.utils.benchmark.Timer"}
"""Functions whose text is code, and is read as such."""
LOADERS = {"torch.load": 2, "numpy.load": 2}
"""Functions that run what they load where an option further behind says so: how many arguments they need."""
UNSAFE_OPTIONS = frozenset({("weights_only", False), ("allow_pickle", True)})
"""Arguments by which what is loaded may run code."""

MAGICS = frozenset("matplotlib precision pinfo pinfo2 who whos pwd autoreload".split())
"""IPython's that run no code of the learner's, where words follow them."""
TIMING = frozenset({"capture", "time", "timeit"})
"""IPython's whose text is code, and is read as such."""
SHELL = frozenset("nvidia-smi nvcc ls pwd lscpu free nproc uname".split())
"""Commands that tell of the machine."""
