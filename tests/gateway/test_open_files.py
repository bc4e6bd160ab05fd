"""The limit of open files, in processes of their own: it cannot be taken back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("resource")
PROGRAM = """
import resource
from dragoman.gateway.process.descriptors import raise_limit
raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    "limits, then",
    [("ulimit -S -n 100; ulimit -H -n 300", "300 300"), ("ulimit -S -n 200; ulimit -H -n 200", "200 200")],
    ids=["raised as far as it may be", "as high as it may be already"],
)
def test_the_limit_of_open_files(limits: str, then: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'{limits}; exec "$0" -c "$1"', sys.executable, PROGRAM],
        capture_output=True, text=True, env=os.environ, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == then
