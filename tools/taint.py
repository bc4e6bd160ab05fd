"""Whether each field of recorded wires arrives at every other protocol or is reported.

    python tools/taint.py [--limit 2] [FILE ...]

Without files, the recordings of this tree are checked. A file holds one JSON object in each line: `kind`
(request, response or stream), `protocol`, and `body` or, for a stream, `events` (`event` and `data`).
What is checked, and what may be lost, stands in `tests/laws/taint.py`.
"""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"

if __name__ == "__main__":
    words = [str(Path(word).resolve()) if Path(word).is_file() else word for word in sys.argv[1:]]
    sys.exit(subprocess.call([sys.executable, "-m", "laws.taint", *words], cwd=TESTS))
