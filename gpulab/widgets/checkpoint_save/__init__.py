"""A checkpoint being saved: the reader stops it at a moment and sees which file is left to load."""

import anywidget
import traitlets

from gpulab.widgets._source import module, pairs, style

PROTOCOLS = {
    "overwrite": "write over the old file",
    "delete": "new file, delete the old, rename",
    "rename": "new file, rename over the old",
    "fsync": "new file, fsync, rename, fsync the folder",
}
ACCIDENTS = {"killed": "the process is killed", "power": "the power fails"}


class CheckpointSave(anywidget.AnyWidget):
    """A save in a few system calls, and what a kill or a power cut after any of them leaves.

    Args:
        protocol: a key of ``PROTOCOLS``. accident: a key of ``ACCIDENTS``. chunks: writes that the file takes, 1 to 6.
        moment: calls that were made before the accident, from 0; at most so many as the protocol has.

    Raises:
        ValueError: for anything else.
    """

    _esm = module("checkpoint_save")
    _css = style("checkpoint_save")
    protocol = traitlets.Unicode().tag(sync=True)
    accident = traitlets.Unicode().tag(sync=True)
    chunks = traitlets.Int().tag(sync=True)
    moment = traitlets.Int().tag(sync=True)
    protocols = traitlets.List().tag(sync=True)
    accidents = traitlets.List().tag(sync=True)

    def __init__(self, protocol: str = "overwrite", accident: str = "killed", chunks: int = 3, moment: int = 2):
        if protocol not in PROTOCOLS or accident not in ACCIDENTS:
            raise ValueError(f"a protocol is one of {', '.join(PROTOCOLS)}, an accident one of {', '.join(ACCIDENTS)}")
        if not 1 <= chunks <= 6 or not 0 <= moment <= chunks + 1:
            raise ValueError(
                f"{chunks} chunks and moment {moment}: there are 1 to 6 chunks, and 0 to {chunks + 1} calls"
            )
        super().__init__(
            protocol=protocol,
            accident=accident,
            chunks=chunks,
            moment=moment,
            protocols=pairs(PROTOCOLS),
            accidents=pairs(ACCIDENTS),
        )
