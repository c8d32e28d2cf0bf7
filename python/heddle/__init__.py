"""Run models that Heddle compiled, from Python.

    import heddle
    model = heddle.load("out/bert")
    session = model.session(threads=2)
    out = session.run({"input_ids": ids, "attention_mask": mask})["last_hidden_state"]

A thin layer over the C interface (runtime/heddle.h, whose rules hold here too): NumPy arrays, and tensors of torch, JAX and others
that speak DLPack, go in without a copy, results come back as NumPy arrays or go into arrays of yours; on a GPU tensors may stay there; every failure is a heddle.Error with the library's own message.
"""

from heddle._c import Error
from heddle.device import DeviceTensor
from heddle.model import Dim, Entry, Extent, Model, Parameter, State, Value, load
from heddle.parameters import Parameters
from heddle.session import ArrayLike as ArrayLike  # for type checkers: no class, so it isn't in the list below
from heddle.session import Session, SupportsDLPack

__all__ = ["DeviceTensor", "Dim", "Entry", "Error", "Extent", "Model", "Parameter", "Parameters", "Session", "State", "SupportsDLPack", "Value", "load"]
