"""Decides which stages may be called by a thread that does not hold the GIL."""

from __future__ import annotations

from typing import Any

import torch

DEVICES = {"cuda"}  # on a CPU, another thread would only compete for the same cores
_PLAIN = (torch.jit._script.RecursiveScriptModule, torch.jit._trace.TopLevelTracedModule)


def is_plain_script(function: Any) -> bool:
    """Returns true if calling `function` only calls its compiled forward(), without Python code of a derived class, an
    attribute or a hook."""
    hooks = torch.nn.modules.module
    if type(function) not in _PLAIN or hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return False
    forward = vars(function).get("forward")
    return forward is None or (isinstance(forward, torch._C.ScriptMethod) and forward.name == "forward")


def compile_script(function: Any, device: str) -> torch.jit.ScriptModule | None:
    """Returns `function` if it is a plain script and the device allows a thread for it, otherwise None. The native loop
    checks the operations in it."""
    is_one = torch.device(device).type in DEVICES and is_plain_script(function)
    return function if is_one else None
