"""The other end of measure.Worker: a program that answers each line of its input with one line of JSON."""

import contextlib
import json
import os
import sys
import time


def serve(start):
    """Runs on as many CPUs as the last argument of the program says. `start(threads)` loads what is measured and gives a
    function from the words of a line to the answer."""
    threads = int(sys.argv[-1])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a runtime prints must not end up among the answers
    with contextlib.suppress(KeyboardInterrupt):
        answer = start(threads)
        print(json.dumps("ready"), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(*line.split())), file=answers, flush=True)


def timed(run, count):
    """Seconds and CPU seconds of each of `count` calls."""
    times = []
    for _ in range(int(count)):
        start, busy = time.perf_counter(), time.process_time()
        run()
        times.append([time.perf_counter() - start, time.process_time() - busy])
    return times
