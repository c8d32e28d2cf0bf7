#!/usr/bin/env python3
"""What the folder of bench/gpu/run does on a machine with a GPU: goldens of every model, then times beside limits that are
measured there. Needs the driver and Python, nothing else; PyTorch, where it is installed, is timed beside.

    python3 run.py [--minutes 10] [--only NAME] [--no-timings]      results.json and results.md are written beside it"""

import argparse
import ctypes as c
import json
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import calls  # noqa: E402
import driver  # noqa: E402


def difference(got, want, golden, largest):
    """What is wrong with a result, or "" and how far it is off, in shares of the largest value: in bf16 of what any call of the golden
    has (`largest`), and of whole numbers some may differ."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}", 0
    got, want, narrow, (mean, most) = got.values(), want.values(), golden["narrow"], golden["allowed"]
    if any(a != a for a in got):
        return "NaN", 0
    if narrow and isinstance(want[0] if want else 0.0, int):
        differ = sum(a != b for a, b in zip(got, want))
        return f"{differ} of {len(want)} numbers differ" if differ > golden["whole"] * len(want) else "", 0
    largest = (largest if narrow else max(map(abs, want), default=0)) or 1
    off = [abs(a - b) / largest for a, b in zip(got, want)]
    worst = max(off, default=0)
    good = worst <= most and sum(off) <= mean * len(off)
    return ("" if good else f"off by {worst:.1e} of the largest value, {sum(off) / len(off):.1e} in the mean"), worst


def check_call(session, entry, given, want, golden, largest):
    got, worst = session.run(given, entry), 0
    for name, tensor in want.items():
        if name not in got:
            return f"no result {name}", worst
        wrong, off = difference(got[name], tensor, golden, largest.get(name, 0))
        worst = max(worst, off)
        if wrong:
            return f"{name}: {wrong}", worst
    return "", worst


def largest_values(folder):
    """Of each result, in all calls of a golden."""
    out = {}
    for path in folder.glob("**/*.out.safetensors"):
        for name, tensor in calls.read(path).items():
            out[name] = max([out.get(name, 0), *map(abs, tensor.values())])
    return out


def check_golden(golden):
    """(what is wrong or "", calls, largest distance)."""
    folder, narrow = HERE / golden["folder"], golden["narrow"]
    made, worst, largest = 0, 0, largest_values(folder) if narrow else {}
    with calls.Model(folder / golden["library"]) as model:
        entry = "forward" if "forward" in model.entries else None
        # Calls that are made twice on a session become graphs, where the model remembers nothing.
        groups = [[(None, path) for path in sorted(folder.glob("*.in.safetensors"))] * (1 if model.states else 3)]
        if model.states:
            groups = [[one] for one in groups[0]]
        groups += [[(path.name.split(".")[1], path) for path in sorted(session.glob("*.in.safetensors"))]
                   for session in sorted(folder.glob("session_*"))]
        for group in groups:
            with model.session() as session:
                for own, path in group:
                    given, want = calls.read(path), calls.read(path.with_name(path.name.replace(".in.", ".out.")))
                    wrong, off = check_call(session, own or entry, given, want, golden, largest)
                    made, worst = made + 1, max(worst, off)
                    if wrong:
                        return f"{path.relative_to(folder)}: {wrong}", made, worst
        texts = folder / "generation.json"
        for case in json.loads(texts.read_text()) if texts.exists() and not narrow else []:
            with model.session() as session:
                made += 1
                if session.generate(case) != case["sequences"]:
                    return "a text that is generated differs", made, worst
    return "", made, worst


def goldens(plan, options):
    out = []
    for golden in plan["goldens"]:
        if options.only and options.only not in golden["name"]:
            continue
        begun = time.perf_counter()
        try:
            wrong, made, worst = check_golden(golden)
        except calls.Error as error:
            wrong, made, worst = str(error), 0, 0
        seconds = time.perf_counter() - begun
        out.append({"name": golden["name"], "wrong": wrong, "calls": made, "worst": worst, "seconds": seconds})
        print(f"  {golden['name']:32} {'ok' if not wrong else 'WRONG: ' + wrong}, {made} calls, off by {worst:.1e}, {seconds:.1f} s", flush=True)
    return out


def limits(gpu, quick):
    """Bytes per second of a copy on the device, and operations per second of FMA units and tensor cores."""
    bytes_ = (1 << 20) if quick else (256 << 20)
    count, warps = (2, 8) if quick else (2000, 64 * gpu.multiprocessors)
    a, b = gpu.get(bytes_), gpu.get(bytes_)
    copy = gpu.seconds(lambda: gpu.copy(b, a, bytes_), 2 if quick else 20)
    gpu.give(a), gpu.give(b)
    out = {"memory": 2 * bytes_ / copy}
    room = gpu.get(128 * warps)
    module = gpu.load((HERE / "limits.ptx").read_bytes())
    for name, operations in (("fma", 16 * 2 * 32), ("mma_bf16", 8 * 4096)):  # of a warp, each time
        kernel = gpu.function(module, name)
        once = gpu.seconds(lambda: gpu.launch(kernel, warps // 8, 256, c.c_uint64(room), c.c_uint32(count)), 2 if quick else 10)
        out[name] = operations * count * warps / once
    gpu.unload(module), gpu.give(room)
    return out


def time_entry(gpu, model, timing, quick):
    """Seconds of a call: on the device, with graphs and without, and between tensors in main memory."""
    given = {name: calls.drawn(tensor["dtype"], tensor["shape"], tensor.get("below"), seed)
             for seed, (name, tensor) in enumerate(timing["inputs"].items())}
    steps, out = timing.get("steps", 1), {}

    def calls_of(session, entry, inputs, results):
        def run():
            if timing.get("prompt"):
                session.reset()
                session.run_there(timing["prompt"]["entry"], prompt, {})
            for _ in range(steps):
                session.run_there(entry, inputs, results)

        return run

    for name, graphs in (("graphs", 0), ("no_graphs", -1)):
        with model.session(stream=gpu.stream, graphs=graphs) as session:
            session.capacity(timing.get("capacity", {}))
            inputs = {key: calls.to_device(model, session, tensor) for key, tensor in given.items()}
            prompt = {key: calls.to_device(model, session, calls.drawn(t["dtype"], t["shape"], t.get("below"), 9))
                      for key, t in timing.get("prompt", {}).get("inputs", {}).items()}
            if prompt:
                session.run_there(timing["prompt"]["entry"], prompt, {})
            results = calls.device_results(model, session, timing["entry"], inputs)
            run = calls_of(session, timing["entry"], inputs, results)
            if timing.get("prompt"):  # the prompt's own time is taken away
                def only():
                    session.reset()
                    session.run_there(timing["prompt"]["entry"], prompt, {})
                out[name] = (gpu.seconds(run, 1 if quick else 5) - gpu.seconds(only, 1 if quick else 5)) / steps
            else:
                out[name] = gpu.seconds(run, 2 if quick else 20) / steps
            calls.give(model, [*inputs.values(), *prompt.values(), *results.values()])
    if not timing.get("prompt"):
        with model.session() as session:
            times, results = [], session.room(given, timing["entry"])
            for _ in range(4 if quick else 22):  # the same results each time: fresh ones would be timed with their first writes
                begun = time.perf_counter()
                session.run_there(timing["entry"], given, results)
                times.append(time.perf_counter() - begun)
            out["from_main_memory"] = statistics.median(times[2:])
    return out


def timings(gpu, plan, options, measured):
    out, ends = [], time.perf_counter() + 60 * options.minutes
    for timing in plan["timings"]:
        if options.only and options.only not in timing["name"]:
            continue
        if time.perf_counter() > ends:
            print(f"  {timing['name']}: no time is left; --minutes allows more")
            continue
        try:
            with calls.Model(HERE / timing["library"], drawn_weights=True) as model:
                row = {"name": timing["name"], **time_entry(gpu, model, timing, plan.get("quick", False))}
        except calls.Error as error:
            print(f"  {timing['name']}: {error}")
            out.append({"name": timing["name"], "wrong": str(error)})
            continue
        arithmetic = measured["mma_bf16" if timing["narrow"] else "fma"]
        row["at_limit"] = max(timing["flops"] / arithmetic, timing["bytes"] / measured["memory"])
        row["expected"] = timing["expected"]
        out.append(row)
        print(f"  {row['name']:40} {1e3 * row['graphs']:9.3f} ms, {1e3 * row['no_graphs']:.3f} without graphs, "
              f"{1e3 * row['at_limit']:.3f} at the limits ({100 * row['at_limit'] / row['graphs']:.0f} %), expected {1e3 * row['expected']:.3f}", flush=True)
    return out


def table(device, measured, wrong, rows, torch_rows):
    out = [f"# {device}", "", f"Goldens: {'all agree' if not wrong else f'{wrong} differ'}.", ""]
    if measured:
        out += [f"Measured limits: {measured['memory'] / 1e9:.0f} GB/s of a copy, {measured['fma'] / 1e12:.1f} Tflop/s on FMA units, "
                f"{measured['mma_bf16'] / 1e12:.0f} Tflop/s in bf16 on tensor cores (`mma.sync`).", "",
                "| entry | ms | without graphs | between tensors in main memory | at the limits | share | expected |", "|---|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        if "wrong" in row:
            out.append(f"| {row['name']} | {row['wrong']} | | | | | |")
            continue
        here = f"{1e3 * row['from_main_memory']:.3f}" if "from_main_memory" in row else ""
        out.append(f"| {row['name']} | {1e3 * row['graphs']:.3f} | {1e3 * row['no_graphs']:.3f} | {here} | {1e3 * row['at_limit']:.3f} | "
                   f"{100 * row['at_limit'] / row['graphs']:.0f} % | {1e3 * row['expected']:.3f} |")
    if torch_rows:
        out += ["", "PyTorch here:", "", "| what | ms |", "|---|--:|", *(f"| {name} | {1e3 * seconds:.3f} |" for name, seconds in torch_rows)]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="no new timing is begun after so many (10)")
    parser.add_argument("--only", help="goldens and timings whose names have this in them")
    parser.add_argument("--no-timings", action="store_true")
    options = parser.parse_args()
    plan = json.loads((HERE / "plan.json").read_text())
    try:
        gpu = driver.Gpu()
    except driver.Error as error:
        sys.exit(f"error: {error}")
    print(f"{gpu.name}, compute capability {gpu.capability / 10}, {gpu.multiprocessors} multiprocessors, CUDA {gpu.version // 1000}.{gpu.version % 1000 // 10}")
    print("goldens")
    checked = goldens(plan, options)
    measured, rows, torch_rows = None, [], []
    if not options.no_timings:
        measured = limits(gpu, plan.get("quick", False))
        print(f"limits: {measured['memory'] / 1e9:.0f} GB/s, {measured['fma'] / 1e12:.2f} Tflop/s f32, {measured['mma_bf16'] / 1e12:.2f} Tflop/s bf16")
        print("timings")
        rows = timings(gpu, plan, options, measured)
        try:
            import beside_torch
        except ImportError:
            print("PyTorch is not installed here: nothing is timed beside")
        else:
            torch_rows = beside_torch.times()
    wrong = sum(bool(one["wrong"]) for one in checked)
    (HERE / "results.json").write_text(json.dumps(
        {"device": gpu.name, "capability": gpu.capability, "driver": gpu.version, "commit": plan["commit"], "goldens": checked, "limits": measured,
         "timings": rows, "pytorch": torch_rows}, indent=1) + "\n")  # fmt: skip
    (HERE / "results.md").write_text(table(gpu.name, measured, wrong, rows, torch_rows))
    print(f"{len(checked) - wrong} of {len(checked)} goldens agree; {HERE / 'results.md'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
