"""From the errors of libvsa to Python's.

InvalidArgument arrives as ValueError already. The stable ABI of PyTorch has no exception for the
other codes: they arrive as a RuntimeError whose text starts with the code.
"""

import torch

_EXCEPTIONS = {"Unsupported": NotImplementedError, "OutOfMemory": torch.OutOfMemoryError}


def translated(error):
    """The exception that `error`, a RuntimeError of an operator, stands for."""
    code, colon, message = str(error).partition(": ")
    if colon and code in _EXCEPTIONS:
        return _EXCEPTIONS[code](message)
    return error


def call(operator, *arguments):
    """operator(*arguments), failing with the exception of the error's kind."""
    try:
        return operator(*arguments)
    except RuntimeError as error:
        raise translated(error) from None
