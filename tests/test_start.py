"""The program's first lines: closed streams, few open files, Ctrl-C before a command runs."""

import resource
import subprocess
import sys

import pytest

START = (sys.executable, "-P", "-m", "memorisk", "--version")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    ran = subprocess.run(["bash", "-c", f'"$@" {closed}', "bash", *START], capture_output=True, text=True)
    assert ran.returncode == 0
    assert ran.stderr == ""


def test_too_few_open_files_are_refused_in_one_line() -> None:
    ran = subprocess.run(["bash", "-c", 'ulimit -n 40; exec "$@"', "bash", *START], capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr == "memorisk: this process may open 40 files; it needs 128: ulimit -n 4096\n"


def test_the_soft_limit_of_open_files_is_raised() -> None:
    code = "import resource; from memorisk.cli import start; print(start._open_files_limit())"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    shell = ["bash", "-c", 'ulimit -Sn 200; exec "$@"', "bash", sys.executable, "-P", "-c", code]
    assert int(subprocess.run(shell, capture_output=True, text=True, check=True).stdout) == wanted


def test_ctrl_c_at_the_start_is_one_line() -> None:
    code = (
        "import os, signal, sys, memorisk.cli.start as start\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'memorisk.cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "start.main()\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "memorisk: stopped\n")
