"""What others counted or specify, each number with its source. Nothing of it is this course's."""

from typing import NamedTuple


class Interruptions(NamedTuple):
    """Of a training job, by what caused them."""

    component: str
    category: str
    count: int


# Grattafiori and others, "The Llama 3 Herd of Models", arXiv 2407.21783, section 3.3.4 and table 5 (cite: llama3-herd). The counts; of the
# percentages that are printed beside them the first, 30.1, is not that of its count.
LLAMA3_DAYS = 54
LLAMA3_GPUS = 16_384
LLAMA3_ALL, LLAMA3_PLANNED = 466, 47
LLAMA3_UNEXPECTED = (
    Interruptions("Faulty GPU", "GPU", 148),
    Interruptions("GPU HBM3 memory", "GPU", 72),
    Interruptions("Software bug", "Dependency", 54),
    Interruptions("Network switch or cable", "Network", 35),
    Interruptions("Host maintenance", "Unplanned maintenance", 32),
    Interruptions("GPU SRAM memory", "GPU", 19),
    Interruptions("GPU system processor", "GPU", 17),
    Interruptions("NIC", "Host", 7),
    Interruptions("NCCL watchdog timeouts", "Unknown", 7),
    Interruptions("Silent data corruption", "GPU", 6),
    Interruptions("GPU thermal interface and sensor", "GPU", 6),
    Interruptions("SSD", "Host", 3),
    Interruptions("Power supply", "Host", 3),
    Interruptions("Server chassis", "Host", 2),
    Interruptions("IO expansion board", "Host", 2),
    Interruptions("Dependency", "Dependency", 2),
    Interruptions("CPU", "Host", 2),
    Interruptions("System memory", "Host", 2),
)
LLAMA3_PRINTED_SHARE_OF_GPUS = 0.587
"""What the text of the same section says of its GPU issues."""

GPUS_PER_NODE = 8
"""Of the servers of the same section."""

SPOT_NOTICE_S = 120
"""Between a notice and the end of an EC2 Spot Instance, at best effort: Amazon EC2 User Guide, "Spot Instance interruption notices" (cite: aws-spot)."""

# NVIDIA/dcgm-exporter, etc/default-counters.csv at commit d5e5f510 (cite: dcgm-exporter): name, type, what it is.
DCGM_DEFAULTS = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", "SM clock frequency (in MHz)."),
    "DCGM_FI_DEV_MEM_CLOCK": ("gauge", "Memory clock frequency (in MHz)."),
    "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", "Memory temperature (in C)."),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C)."),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W)."),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Total energy consumption since boot (in mJ)."),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Total number of PCIe retries."),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %)."),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", "Memory utilization (in %)."),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered."),
    "DCGM_FI_DEV_FB_FREE": ("gauge", "Framebuffer memory free (in MiB)."),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("counter", "Total number of NVLink bandwidth counters for all lanes."),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", "Number of remapped rows for uncorrectable errors."),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("counter", "Number of remapped rows for correctable errors."),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "Whether remapping of rows has failed."),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", "Ratio of time the graphics engine is active."),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Ratio of cycles the tensor (HMMA) pipe is active."),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Ratio of cycles the device memory interface is active."),
}
DCGM_OFF = (
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "DCGM_FI_DEV_POWER_VIOLATION",
    "DCGM_FI_DEV_THERMAL_VIOLATION",
    "DCGM_FI_PROF_SM_ACTIVE",
)
"""In the same file behind a comment sign: an exporter with its default file has none of these."""
DCGM_NO_SENSOR = 9223372036854775794
"""What a sensor that is not there reads in the example of the same repository's README."""
