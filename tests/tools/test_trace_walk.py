"""One streamed tool call passes few files; `tools/trace_walk.py` prints them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_one_tool_call_passes_few_files_of_library_and_gateway() -> None:
    walk = str(ROOT / "tools" / "trace_walk.py")
    command = [sys.executable, walk, "--most-library", "42", "--most-gateway", "60"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert re.findall(r"^(\w+): \d+ files, \d+ functions$", ran.stdout, re.M) == ["library", "gateway"]
    assert "exchange.py" in ran.stdout
    assert "gateway/app.py" in ran.stdout
