"""Whether recorded conversations come back from every other protocol as they went, minus the reported losses.

    python tools/round_trips.py [FILE ...]

Without files, the conversations of this tree make the trip. The form of a file is that of `tools/taint.py`.
What is compared stands in `tests/laws/round_trips.py`.
"""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"

if __name__ == "__main__":
    files = [str(Path(word).resolve()) for word in sys.argv[1:]]
    sys.exit(subprocess.call([sys.executable, "-m", "laws.round_trips", *files], cwd=TESTS))
