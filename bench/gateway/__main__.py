"""`python -m bench.gateway`: the gateway benchmark, all of it or a part.

python -m bench.gateway --only dragoman,nginx --quick    # under a minute, while working on the server
python -m bench.gateway --write --against 466c9c9        # everything, into the docs
"""

import argparse
import os
import shutil
import signal
import tempfile
from pathlib import Path

from bench.gateway import cpu
from bench.gateway.commits import gateway_at
from bench.gateway.contenders import GATEWAYS
from bench.gateway.pairs import ANTHROPIC_CHAT, CHAT_CHAT, PAIRS
from bench.gateway.processes import raise_priority
from bench.gateway.rows import rows
from bench.gateway.run import Plan, Results, run
from bench.gateway.table import report
from bench.gateway.writing import circumstances, publish, save, saved

NEEDED = {"nginx": "nginx-light", "wrk": "wrk", "taskset": "util-linux"}


def main() -> None:
    chosen = arguments()
    os.environ["PATH"] += ":/usr/sbin"  # where Debian keeps nginx, which not everybody's path names
    absent = [package for name, package in NEEDED.items() if not shutil.which(name)]
    if absent and not chosen.saved:
        print(f"The gateway is not measured: that needs {' and '.join(absent)} (Debian packages).")
        return
    chosen.against = [
        gateway_at(ref) for ref in chosen.against
    ]  # an unknown commit is an error now, not later
    results, made_by = saved() if chosen.saved else measured(chosen)
    print(report(results), f"Made by {made_by}.", sep="\n\n")
    if chosen.write:
        save(results, made_by)
        publish(results, made_by)
    if chosen.against or chosen.write or not (chosen.quick or chosen.pairs or chosen.only):
        show_cpu(chosen, made_by)


def show_cpu(chosen: argparse.Namespace, made_by: str) -> None:
    figures = cpu.saved() if chosen.saved else cpu.measured(chosen.against, list(rows()), cpu.ROUNDS, made_by)
    print("", cpu.report(figures), sep="\n")
    if chosen.write:
        cpu.write(figures)


def measured(chosen: argparse.Namespace) -> tuple[Results, str]:
    made_by = circumstances()
    raise_priority(chosen.nice)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as place:
        return run(plan_of(chosen), Path(place)), made_by


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway")
    names = ",".join(gateway.name for gateway in GATEWAYS)
    parser.add_argument("--only", default="", help=f"some of {names}")
    parser.add_argument("--quick", action="store_true", help="two pairs, a second each, best of two")
    parser.add_argument("--pairs", default="", help="parts of titles, such as 'Chat → Chat,hermes'")
    parser.add_argument("--rounds", type=int, help="best of so many")
    parser.add_argument("--seconds", type=float, help="for each load")
    parser.add_argument("--against", action="append", default=[], metavar="REF", help="CPU beside a commit")
    parser.add_argument("--write", action="store_true", help="keep the figures, renew the page and the plot")
    parser.add_argument("--saved", action="store_true", help="measure nothing, show the kept figures")
    parser.add_argument("--nice", type=int, default=0, help="-10, as root, where others work")
    return parser.parse_args()


def plan_of(chosen: argparse.Namespace) -> Plan:
    names = chosen.only.split(",") if chosen.only else [gateway.name for gateway in GATEWAYS]
    pairs = (CHAT_CHAT, ANTHROPIC_CHAT) if chosen.quick else PAIRS
    if chosen.pairs:
        pairs = tuple(pair for pair in PAIRS if any(part in pair.title for part in chosen.pairs.split(",")))
    return Plan(
        gateways=[gateway for gateway in GATEWAYS if gateway.name in names],
        pairs=pairs,
        rounds=chosen.rounds or (2 if chosen.quick else 3),
        seconds=chosen.seconds or (1 if chosen.quick else 2),
    )


if __name__ == "__main__":
    main()
