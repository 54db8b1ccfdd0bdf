"""From the errors of libvsa to Python's.

The stable ABI of PyTorch has no exceptions for libvsa's codes, and which of C++'s own it tells apart differs from
version to version. So an operator fails with a RuntimeError whose text starts with the code, and what calls it from
Python, a compiled graph and the backward pass included, gets the exception that the code stands for.
"""

import torch

_EXCEPTIONS = {"InvalidArgument": ValueError, "Unsupported": NotImplementedError, "OutOfMemory": torch.OutOfMemoryError}


def translated(error):
    """The exception that `error`, a RuntimeError of an operator, stands for; itself if it is not libvsa's."""
    code, colon, message = str(error).partition(": ")
    if colon and code in _EXCEPTIONS:
        return _EXCEPTIONS[code](message)
    return error


def translating(function):
    """`function`, failing with the exception of the error's kind."""
    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        except RuntimeError as error:
            raise translated(error) from None
    return call


def translate_errors_of(packet):
    """Makes the operator `packet` (torch.ops.vsa.tile) and its overload fail with Python's exceptions.

    _op is what both call for every call from Python. A kernel in Python would be the public way, but it costs every
    call 10 us, and code that runs without Python would lack it.
    """
    for callee in (packet, packet.default):
        callee._op = translating(callee._op)
