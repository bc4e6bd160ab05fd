"""Runs the Open Responses compliance suite itself against a gateway, over an upstream of each protocol.

    python tests/compliance/suite.py FOLDER     the suite's repository, with its packages installed

It needs bun, in the folder's node_modules or on the path. All is on loopback; the demo is the upstream.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gateway.stands import CLIENT_KEY, MODELS, UPSTREAMS, configuration, demo, gateway

_SCRIPT = Path("bin/compliance-test.ts")


def main(folder: Path) -> int:
    path = f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    bun = shutil.which("bun", path=path)
    if not (folder / _SCRIPT).exists() or bun is None:
        print(f"compliance: no suite in {folder}, or no bun; only our own assertions were checked")
        return 0
    failed = 0
    with demo() as (_, upstream), gateway(configuration(upstream, f'"{CLIENT_KEY}"')) as stand:
        for name in UPSTREAMS:
            options = [
                "--base-url",
                f"{stand.url}/v1",
                "--api-key",
                CLIENT_KEY,
                "--model",
                f"{name}:{MODELS[name]}",
            ]
            print(f"== over {name}", flush=True)
            failed += (
                subprocess.run([bun, "run", str(_SCRIPT), *options], cwd=folder, check=False).returncode != 0
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
