"""`make bench`: requests, streams and dialects; whether cost is linear; how we stand against our bars."""

import warnings

from bench.bars import Times, bars
from bench.client import show_client
from bench.contenders import CONTENDERS, DRAGOMAN, FLOOR, Contender, Pair
from bench.dialects import show_dialects
from bench.imports import show_imports
from bench.many import show_many
from bench.measure import best_times
from bench.workloads import NOT_ITS_PAIR, PAIRS, REQUESTS, STREAMS, NotMeasured, Workload

HEADLINE = PAIRS[0]


def main() -> None:
    warnings.simplefilter("ignore")
    print("Bytes in to bytes out, CPU time, best of several, one run. Read ratios, not digits.")
    print(", ".join(dict.fromkeys(contender.title for contender in CONTENDERS)))
    headlines = [show_workload(workload)[HEADLINE] for workload in (REQUESTS, STREAMS)]
    print("\nIs cost linear? dragoman, time and size against the usual input")
    for workload in (REQUESTS, STREAMS):
        show_growth(workload)
    show_dialects()
    show_client()
    show_many()
    show_imports()
    print(f"\nBars, {HEADLINE.client} client and {HEADLINE.upstream} upstream")
    print(*bars(*headlines), sep="\n")


def show_workload(workload: Workload) -> dict[Pair, Times]:
    print(f"\n{workload.title}")
    print(f"{'client':17}{'upstream':17}{'':24}{workload.time_unit:>10}{'x floor':>9}{'x dragoman':>12}")
    return {pair: show_pair(workload, pair) for pair in PAIRS}


def show_pair(workload: Workload, pair: Pair) -> Times:
    reasons = {contender.name: why_not(workload, contender, pair) for contender in CONTENDERS}
    present = [contender for contender in CONTENDERS if not reasons[contender.name]]
    times = measure(workload, pair, present)
    for name, reason in reasons.items():
        if reason == NOT_ITS_PAIR:
            continue
        cells = f"   {reason}" if reason else time_cells(times, name)
        print(f"{pair.client:17}{pair.upstream:17}{name:24}{cells}")
    return times


def why_not(workload: Workload, contender: Contender, pair: Pair) -> str:
    """Why this contender is not measured here, or nothing. The trial run also warms it up."""
    try:
        workload.check(workload.prepare(contender, pair, 1)())
    except NotMeasured as reason:
        return str(reason)
    except Exception as error:  # whatever a contender fails with, the others are measured
        return f"fails: {error!r:.60}"
    return ""


def measure(workload: Workload, pair: Pair, contenders: list[Contender]) -> Times:
    prepares = [lambda c=contender: workload.prepare(c, pair, 1) for contender in contenders]
    best = best_times(prepares, workload.best_of)
    size = workload.size(pair, 1)
    return {
        contender.name: workload.show(seconds, size)
        for contender, seconds in zip(contenders, best, strict=True)
    }


def time_cells(times: Times, name: str) -> str:
    ratios = [
        f"{times[name] / times[base.name]:.1f}" if base.name in times else "" for base in (FLOOR, DRAGOMAN)
    ]
    return f"{times[name]:10.2f}{ratios[0]:>9}{ratios[1]:>12}"


def show_growth(workload: Workload) -> None:
    if reason := why_not(workload, DRAGOMAN, HEADLINE):
        print(f"{workload.size_unit:8}{reason}")
        return
    multiples = (1, 2, 4, 8)
    prepares = [lambda n=times: workload.prepare(DRAGOMAN, HEADLINE, n) for times in multiples]
    seconds = best_times(prepares, workload.best_of)
    sizes = [workload.size(HEADLINE, times) for times in multiples]
    for size, time in zip(sizes, seconds, strict=True):
        growth = f"size x {size / sizes[0]:4.2f}   time x {time / seconds[0]:4.2f}"
        print(f"{size:>9,} {workload.size_unit:8}{growth}")


if __name__ == "__main__":
    main()
