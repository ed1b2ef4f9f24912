"""Frames that compiled decoders decode, in a process apart: GDCM's JPEG Lossless and JPEG-LS, OpenJPEG's JPEG 2000.

GDCM is the one decoder of its kinds of a permissive licence, and a broken stream can make it end its process (a C++
exception that nobody catches); OpenJPEG may write beside its memory (CVE-2025-54874). A run must outlive one bad file:
the process apart is started when the first such file is met, asked for one frame at a time, and started anew if it
died. It ends with the process that started it.
"""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from memorisk.runs.child_processes import SAFE, safe_command
from memorisk.runs.errors import InputError, one_line

DECODERS = {"gdcm": "GDCM", "pylibjpeg": "OpenJPEG"}
"""What decodes in the process apart, by pydicom's name of it."""
_SECONDS = 300.0  # a frame takes milliseconds to a few seconds; a decoder that loops for ever must not hold the run
_CODE = "from memorisk.images.readers.dicom_apart import answer_requests; answer_requests()"
_LOCK = threading.Lock()
_children: dict[int, subprocess.Popen[bytes]] = {}


def decode_apart(path: Path, frame: int, plugin: str) -> np.ndarray:
    """Stored values of one frame, decoded in the process apart.

    Args:
        path: A DICOM file.
        frame: Index of the frame.
        plugin: One of `DECODERS`.

    Returns:
        ``[h, w]`` or ``[h, w, 3]``, as pydicom gives them.

    Raises:
        InputError: The decoder refused the frame, died of it, or took too long.
    """
    with _LOCK:
        child = _child()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            request = {"path": os.fsencode(path.absolute()).hex(), "frame": frame, "plugin": plugin}
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
            if not select.select([child.stdout], [], [], _SECONDS)[0]:
                raise InputError(
                    f"{one_line(path)}: the decoder ({DECODERS[plugin]}) did not finish in {_SECONDS:.0f} seconds"
                )
            reply = json.loads(child.stdout.readline() or b"null")
            if reply is None:
                raise BrokenPipeError
            data = child.stdout.read(reply.get("bytes", 0))
        except BaseException as error:
            _end(child)
            if isinstance(error, OSError | ValueError):
                raise InputError(f"{one_line(path)}: the decoder ({DECODERS[plugin]}) broke down on it") from None
            raise
    if "error" in reply:
        raise InputError(reply["error"])
    return np.frombuffer(data, dtype=reply["dtype"]).reshape(reply["shape"])


def answer_requests() -> None:
    """The process apart: decode what is asked for on standard input, until it closes."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the decoder prints must not mix with the replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            values = _decode(Path(os.fsdecode(bytes.fromhex(request["path"]))), request["frame"], request["plugin"])
            head: dict[str, Any] = {"dtype": values.dtype.str, "shape": values.shape, "bytes": values.nbytes}
            body = values.tobytes()
        except Exception as error:  # the caller tells the user
            head, body = {"error": one_line(" ".join(str(error).split()), 150)}, b""
        replies.write(json.dumps(head).encode() + b"\n" + body)
        replies.flush()


def _decode(path: Path, frame: int, plugin: str) -> np.ndarray:
    from memorisk.images.readers.dicom import dataset, pydicom_module

    pixel_array = pydicom_module().pixels.pixel_array
    return np.ascontiguousarray(pixel_array(dataset(path), index=frame, decoding_plugin=plugin))


def _child() -> subprocess.Popen[bytes]:
    """The process apart of this process (a forked copy of it must not share one)."""
    child = _children.get(os.getpid())
    if child is None or child.poll() is not None:
        if not _children:
            atexit.register(_end_all)
        environment = {**os.environ, **SAFE, "OMP_NUM_THREADS": "1"}
        child = subprocess.Popen(
            safe_command(_CODE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        _children[os.getpid()] = child
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process apart and let go of its pipes."""
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:  # what could not be written to a dead process
                continue
    _children.pop(os.getpid(), None)


def _end_all() -> None:
    child = _children.get(os.getpid())
    if child is not None:
        _end(child)
