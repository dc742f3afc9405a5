"""What an answer may use. All else is flagged: a list of what is harmless stays true when a library grows."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = frozenset(
    "torch numpy gpulab triton numba matplotlib mpl_toolkits cycler ipywidgets IPython tqdm pandas scipy seaborn PIL einops "
    "transformers safetensors torchvision networkx".split()
)
"""Third-party packages that a notebook may import."""

STANDARD = frozenset(
    "__future__ abc argparse array base64 bisect calendar cmath collections colorsys contextlib copy csv dataclasses datetime "
    "decimal difflib enum errno fnmatch fractions functools getpass glob graphlib hashlib heapq hmac html io itertools json "
    "keyword locale logging math multiprocessing numbers operator os pathlib platform pprint queue random re secrets shutil "
    "statistics string struct sys tarfile tempfile textwrap time timeit token types typing unicodedata uuid warnings weakref "
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
        "argv byteorder exit float_info getdefaultencoding getrecursionlimit getrefcount getsizeof hash_info int_info maxsize "
        "path platform stderr stdin stdout version version_info".split()
    ),
    "types": frozenset("GeneratorType MappingProxyType NoneType SimpleNamespace".split()),
    "operator": frozenset(
        "add and_ concat contains countOf eq floordiv ge getitem gt indexOf invert itemgetter le lt matmul mod mul ne neg "
        "not_ or_ pow setitem sub truediv truth xor".split()
    ),
    "weakref": frozenset("WeakKeyDictionary WeakMethod WeakSet WeakValueDictionary finalize proxy ref".split()),
    "IPython": frozenset({"display"}),
}
"""Of these modules the parts that say nothing of frames, modules, processes or hooks."""

NOT_OF_LIBRARIES = (
    "torch.ops torch.library torch.overrides torch.jit torch.fx torch.package torch.multiprocessing torch.utils.dlpack "
    "torch.utils.cpp_extension torch.autograd.profiler torch.distributed.rpc torch.futures torch.classes torch.export "
    "torch.onnx torch.monitor torch.cuda.cudart torch.cuda.memory torch.from_file torch.hub torch.testing "
    "torch.cuda.caching_allocator_alloc torch.distributed.Store torch.distributed.TCPStore torch.distributed.FileStore "
    "torch.distributed.HashStore torch.distributed.PrefixStore "
    "numpy.ctypeslib numpy.memmap numpy.testing numpy.f2py numpy.core numpy.distutils numba.core numba.extending "
    "triton.runtime triton.compiler triton.backends scipy.LowLevelCallable"
).split()
"""Parts of libraries that none needs."""

MAY_BE_SET = ("torch.backends.", "numpy.random.", "matplotlib.", "os.environ")
"""Prefixes of what is there to be set."""

PRIVATE = frozenset(
    "_ _parameters _buffers _modules _version _base _cdata _replace _asdict _fields _make _get_closed_form_lr _check _sleep "
    "_pytree _assert _execution_engine".split()
)
"""Names with an underscore that their documentation tells people to use, or that a subclass of theirs meets."""
PRIVATE_PREFIX = "_foreach_"
"""PyTorch's operations on lists of tensors, by which an optimizer is written."""

DUNDERS_READ = frozenset(
    "__closure__ __code__ __globals__ __builtins__ __subclasses__ __bases__ __mro__ __wrapped__ __self__ __func__ "
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

DUNDERS_DEFINED = frozenset(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __bool__ __hash__ __class__ __getattribute__ __getattr__ __instancecheck__ "
    "__subclasscheck__ __torch_function__ __torch_dispatch__ __array__ __array_ufunc__ __array_function__ __del__ __float__ "
    "__int__ __index__ __reduce__ __reduce_ex__ __sizeof__".split()
)
"""Methods by which an object answers a judge's comparisons itself, or works when nobody calls it."""

DYNAMIC = frozenset("exec eval compile globals locals __import__ get_ipython breakpoint".split())

OF_A_DTYPE = frozenset("itemsize is_floating_point is_complex is_signed".split())
"""What is asked of ``getattr(torch, "float" + bits)``, which names a dtype."""

UNSAFE_OPTIONS = frozenset({("weights_only", False), ("allow_pickle", True)})
"""Arguments by which what is loaded may run code."""

MAGICS = frozenset("matplotlib precision pinfo pinfo2 who whos pwd pip conda history autoreload".split())
"""IPython's that run no code of the learner's."""
TIMING = frozenset({"capture", "time", "timeit"})
"""IPython's whose text is code, and is read as such."""
SHELL = frozenset("nvidia-smi pip ls pwd lscpu free nproc uname".split())
"""Commands that tell of the machine."""

INSTRUMENTS = (
    "gpulab.compat",
    "gpulab.observe",
    "gpulab.cuda",
    "gpulab.collectives",
    "gpulab.kernels",
    "gpulab.memory",
)
OF_THE_BOOK = frozenset(
    "gpulab.collectives.network gpulab.collectives.structure gpulab.kernels.cuda gpulab.kernels.fusion gpulab.memory.shapes "
    "gpulab.memory.plan gpulab.memory.track".split()
)
"""Of the modules of those packages the ones that pages and notebooks import."""


@cache
def inner_modules() -> frozenset[str]:
    """The modules of gpulab that make the instruments and the virtual card, which no page of the course imports."""
    root = Path(find_spec("gpulab").origin).parent
    files = [path.relative_to(root.parent).with_suffix("") for path in root.rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    inner = {name for name in names if name.count(".") > 1 and name.startswith(INSTRUMENTS)}
    return frozenset(inner - {name for name in inner if name.startswith(tuple(OF_THE_BOOK))} | {"gpulab.compat"})
