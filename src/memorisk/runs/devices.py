"""Where networks run: the one place that reads what a user calls a device."""

import torch

from memorisk.runs.errors import InputError, one_line


def check_device(device: str | torch.device) -> torch.device:
    """The device, if it is one memorisk knows and this machine has.

    Args:
        device: cpu, cuda, cuda:1 and so on, or auto: a GPU where there is one.

    Raises:
        InputError: It is unknown, or not there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    said = one_line(repr(str(device)), 60)
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"unknown device {said}; it must be cpu, cuda, cuda:0, ...") from error
    if where.type not in ("cpu", "cuda"):
        raise InputError(f"device {said} is not supported; it must be cpu, cuda, cuda:0, ...")
    if where.type == "cuda" and (where.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {said} is not there: torch finds {torch.cuda.device_count()} GPUs; use cpu")
    return where
