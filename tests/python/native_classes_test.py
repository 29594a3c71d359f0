"""Objects of native classes whose constructor was not called."""

import interpreters

TRY_ALL = """
import sys
from slipstream import _native

def attempt(call):
    try:
        return call()
    except TypeError:
        return None

for name, each in vars(_native).items():
    if not isinstance(each, type) or issubclass(each, BaseException):
        continue
    unfinished = type("Unfinished", (each,), {"__init__": lambda self: None})
    for kind in (each, unfinished):
        for make in (kind.__new__, object.__new__, type.__call__, *(base.__new__ for base in kind.__mro__)):
            made = attempt(lambda: make(kind))
            for member in dir(kind) if made is not None else ():
                print(name, make, member, file=sys.stderr, flush=True)
                if attempt(lambda: getattr(made, member)) is not None and not member.startswith("__"):
                    attempt(getattr(made, member))
    assert attempt(unfinished) is None, name
    print(name)
"""


def test_skipping_native_constructor_raises_instead_of_crashing():
    run = interpreters.run(TRY_ALL)
    assert run.returncode == 0, run.stderr
    assert {"Dataset", "Loader", "Loop", "NativeTrainer"} <= set(run.stdout.split())


def test_new_of_native_class_raises_with_advice():
    run = interpreters.run("from slipstream import _native\n_native.LoaderSettings.__new__(_native.LoaderSettings)")
    assert "TypeError: slipstream._native.LoaderSettings.__new__() alone" in run.stderr
    assert "call the class" in run.stderr
