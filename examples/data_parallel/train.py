#!/usr/bin/env python3
"""Trains a net with several processes, each of which computes the gradients of its share of every batch.

    mpirun -n 2 python examples/data_parallel/train.py FOLDER        needs mpi4py and Open MPI

FOLDER gets the library and `curve.safetensors`, what has been learned. With another number of processes it is the same but for
rounding: the mean of equal shares' gradients is the gradient of the whole batch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402

STEPS, BATCH = 400, 64


class Gradients:
    """All gradients of a session side by side in one array, so that one call adds up those of all processes."""

    def __init__(self, session):
        self.session = session
        shapes = {p.state: session.state("gradient." + p.state).shape for p in session.model.parameters.values()}
        self.all = np.empty(sum(int(np.prod(shape)) for shape in shapes.values()), np.float32)
        self.views, at = {}, 0
        for name, shape in shapes.items():
            self.views["gradient." + name] = self.all[at : at + int(np.prod(shape))].reshape(shape)
            at += int(np.prod(shape))

    def read(self):
        for name, view in self.views.items():
            view[...] = self.session.state(name)

    def write(self):
        for name, view in self.views.items():
            self.session.set_state(name, view)


def train(folder, world):
    if world.rank == 0:
        command = ROOT / "build" / "bin" / "heddle"
        subprocess.run([command, "compile", Path(__file__).with_name("curve.heddle"), "--blank", "-o", folder], check=True)
    world.Barrier()
    session = heddle.load(folder).session(threads=1)
    first = np.random.default_rng(0)
    for name, parameter in session.model.parameters.items():
        session.parameters[name] = first.normal(0, 0.5, parameter.shape).astype(np.float32)
    batches, gradients = np.random.default_rng(1), None
    for step in range(1, STEPS + 1):
        x = batches.uniform(-3, 3, (BATCH, 1)).astype(np.float32)  # the same in every process, which takes its share
        own = np.ascontiguousarray(x[world.rank :: world.size])
        loss = session.run({"x": own, "y": np.sin(own)}, "gradients")["loss"]
        gradients = gradients or Gradients(session)
        gradients.read()
        world.Allreduce(MPI.IN_PLACE, gradients.all)
        gradients.all /= world.size
        gradients.write()
        session.run({"rate": np.float32(0.02 * min(1, 40 / step))}, "apply")
        mean = world.allreduce(float(loss)) / world.size
        if world.rank == 0 and step % 100 == 0:
            print(f"step {step}, loss {mean:.6f}", flush=True)
    if world.rank == 0:
        session.parameters.save(Path(folder) / "curve.safetensors")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    train(sys.argv[1], MPI.COMM_WORLD)
