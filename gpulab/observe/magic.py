"""The cell magic ``%%timeline``: run a cell, then show what the machine did.

``%load_ext gpulab.observe.magic`` brings it.
"""

from gpulab.observe.recorder import observe


def load_ipython_extension(shell) -> None:
    """Called by IPython: gives ``shell`` the magic."""

    def timeline(line: str, cell: str) -> None:
        """``%%timeline [name]``: the Observation is kept under ``name``."""
        with observe() as seen:
            result = shell.run_cell(cell)
        if line.strip():
            shell.push({line.strip(): seen})
        if result.success and (seen.ops or seen.device is not None and seen.kernels):
            from IPython.display import display

            display(seen.timeline())

    shell.register_magic_function(timeline, "cell", "timeline")
