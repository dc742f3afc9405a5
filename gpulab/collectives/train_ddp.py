"""Training with DDP: torchrun --nproc-per-node 2 train_ddp.py"""

import os

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINT = "checkpoint.pt"


def main(epochs=3):
    local_rank = int(os.environ["LOCAL_RANK"])  # torchrun sets it
    processes = int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpu = torch.cuda.device_count() >= processes  # one for each
    device = torch.device(f"cuda:{local_rank}" if on_gpu else "cpu")
    if on_gpu:
        torch.cuda.set_device(device)  # before anything else opens a context
    dist.init_process_group("nccl" if on_gpu else "gloo")

    torch.manual_seed(0)  # the same samples in every rank
    inputs = torch.randn(1001, 20)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=50, sampler=sampler)

    layers = (torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    model = torch.nn.Sequential(*layers).to(device)
    ddp = DDP(model, device_ids=[local_rank] if on_gpu else None)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.01)
    first = 0
    if os.path.exists(CHECKPOINT):  # every rank loads, to its own device
        saved = torch.load(CHECKPOINT, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1

    for epoch in range(first, epochs):
        sampler.set_epoch(epoch)
        seen = torch.zeros(2, device=device)  # sum of losses, samples
        for x, y in loader:
            loss = mse_loss(ddp(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()  # DDP's all-reduces run in here
            optimizer.step()
            both = torch.stack((loss.detach(), torch.ones_like(loss)))
            seen += both * len(x)
        dist.all_reduce(seen)
        if dist.get_rank() == 0:  # one rank prints and saves
            mean, samples = (seen[0] / seen[1]).item(), int(seen[1])
            print(f"epoch {epoch}: loss {mean:.3f} over {samples} samples")
            state = {"model": model.state_dict(), "epoch": epoch}
            state["optimizer"] = optimizer.state_dict()
            torch.save(state, CHECKPOINT + ".part")
            os.replace(CHECKPOINT + ".part", CHECKPOINT)  # whole or not at all

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
