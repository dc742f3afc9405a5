"""Chapter "Data parallelism in depth": wrong solutions, and right ones written another way."""

from autograder.authoring import alternative, edited, mistake  # noqa: F401

# E14.1 mini_ddp


@mistake(
    "mini_ddp",
    loses=("values",),
    because="WRITE(mini_ddp): the misconception, as half a sentence",
    breaks="WRITE(mini_ddp): the words of the statement that it breaks",
)
def mini_ddp_misunderstood(model, bucket_bytes):
    return x.clone()  # WRITE(mini_ddp): what someone with this misconception writes; one function for each


@alternative("mini_ddp")
def mini_ddp_another_way(model, bucket_bytes):
    raise NotImplementedError("WRITE(mini_ddp): a right solution, as unlike yours as can be")

# E14.2 best_bucket


@mistake(
    "best_bucket",
    loses=("values",),
    because="WRITE(best_bucket): the misconception, as half a sentence",
    breaks="WRITE(best_bucket): the words of the statement that it breaks",
)
def best_bucket_misunderstood(layers, link, buckets):
    return x.clone()  # WRITE(best_bucket): what someone with this misconception writes; one function for each


@alternative("best_bucket")
def best_bucket_another_way(layers, link, buckets):
    raise NotImplementedError("WRITE(best_bucket): a right solution, as unlike yours as can be")

# E14.3 epoch_indices


@mistake(
    "epoch_indices",
    loses=("values",),
    because="WRITE(epoch_indices): the misconception, as half a sentence",
    breaks="WRITE(epoch_indices): the words of the statement that it breaks",
)
def epoch_indices_misunderstood(length, world, rank, epoch, seed):
    return x.clone()  # WRITE(epoch_indices): what someone with this misconception writes; one function for each


@alternative("epoch_indices")
def epoch_indices_another_way(length, world, rank, epoch, seed):
    raise NotImplementedError("WRITE(epoch_indices): a right solution, as unlike yours as can be")

# E14.4 reduce_metrics


@mistake(
    "reduce_metrics",
    loses=("values",),
    because="WRITE(reduce_metrics): the misconception, as half a sentence",
    breaks="WRITE(reduce_metrics): the words of the statement that it breaks",
)
def reduce_metrics_misunderstood(totals):
    return x.clone()  # WRITE(reduce_metrics): what someone with this misconception writes; one function for each


@alternative("reduce_metrics")
def reduce_metrics_another_way(totals):
    raise NotImplementedError("WRITE(reduce_metrics): a right solution, as unlike yours as can be")

# E14.5 find_desync


@mistake(
    "find_desync",
    loses=("values",),
    because="WRITE(find_desync): the misconception, as half a sentence",
    breaks="WRITE(find_desync): the words of the statement that it breaks",
)
def find_desync_misunderstood(logs):
    return x.clone()  # WRITE(find_desync): what someone with this misconception writes; one function for each


@alternative("find_desync")
def find_desync_another_way(logs):
    raise NotImplementedError("WRITE(find_desync): a right solution, as unlike yours as can be")
