"""What a training runs on: the one place that chooses."""

import torch


def device() -> torch.device:
    """A CUDA device where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def use_threads(threads: int) -> None:
    """Compute on so many CPU threads. Raises ValueError where they are fewer than one."""
    if threads < 1:
        raise ValueError(f"{threads} threads asked for a training: at least 1 is needed")
    torch.set_num_threads(threads)
