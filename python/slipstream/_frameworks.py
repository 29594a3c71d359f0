"""Calls of frameworks that mean something else than iterating over a loader. The calling function identifies them."""

from __future__ import annotations

import sys

from . import _native


def is_check_of_lightning() -> bool:
    """Returns true in an __iter__() that Lightning calls only to find out whether an object is iterable.

    It does not check a torch.utils.data.DataLoader, whose iterator starts worker processes and uses random numbers."""
    return sys._getframe(2).f_code.co_name == "_check_dataloader_iterable"


def refuse_rebuilding(what: str) -> None:
    """Raises Refused if a function of Accelerate reads an attribute of a loader. Such a function, skip_first_batches()
    or prepare_data_loader(), creates another loader from the attributes, which loses the order of a
    slipstream.DataLoader, and the stages of a pipeline.

    Has to be called by the method that Python calls for the attribute.

    what: the loader's class."""
    caller = sys._getframe(2)
    if caller.f_globals.get("__name__") == "accelerate.data_loader":
        raise _native.Refused(
            f"{caller.f_code.co_name}() of Accelerate would create another loader from the data set of a "
            f"slipstream.{what}, and lose its {'stages' if what == 'Pipeline' else 'order and random numbers'}: "
            f"{_REBUILDING.get(caller.f_code.co_name, 'give the loader itself to the loop')}. "
            "docs/migration.md (Use Accelerate, Use the Trainer of Hugging Face) has examples"
        )


_REBUILDING = {
    "prepare_data_loader": (
        "leave it out, because Accelerate needs no other loader; it is for a loader inside the pipeline"
    ),
    "skip_first_batches": (
        "restore the position with load_state_dict() of the loader, or of a loader inside the pipeline with "
        "skip_first_batches() before the pipeline is created. For resume_from_checkpoint of Hugging Face's Trainer, "
        "return a torch.utils.data.DataLoader(batches, batch_size=None) from get_train_dataloader(), where `batches` "
        "is an IterableDataset that iterates over the loader"
    ),
}
