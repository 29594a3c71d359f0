"""Which stages a thread without Python's lock may call."""

from __future__ import annotations

from typing import Any

import torch

DEVICES = {"cuda"}  # on a CPU, threads would take its cores from each other
_PLAIN = (torch.jit._script.RecursiveScriptModule, torch.jit._trace.TopLevelTracedModule)


def is_plain_script(function: Any) -> bool:
    """Whether calling it is calling its compiled forward(): no class or attribute of the caller's and no
    hook comes between."""
    hooks = torch.nn.modules.module
    if type(function) not in _PLAIN or hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return False
    forward = vars(function).get("forward")
    return forward is None or (isinstance(forward, torch._C.ScriptMethod) and forward.name == "forward")


def compile_script(function: Any, device: str) -> torch.jit.ScriptModule | None:
    """`function` where it is one, as far as Python knows."""
    is_one = torch.device(device).type in DEVICES and is_plain_script(function)
    return function if is_one else None
