"""What takes part in a bench: its calls, and what its output is held to."""

import torch


def max_or_nan(errors):
    return float(torch.tensor(errors, dtype=torch.float64).max())  # torch's max keeps NaN


def run_and_wait(call, device):
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()


def sequence(*calls):
    """One call that makes the given calls one after the other."""
    def call():
        for one in calls:
            one()
    call.workspace = max((one.workspace for one in calls), key=lambda w: w.numel())
    return call


class Contestant:
    """calls[i] enqueues the work on set i; error(i) is that of what it left, at most `limit`.

    pairs: "sparse" or "dense", what its floating-point operations are counted from; None: not counted.
    passes: how many times those of forward they are. outputs(i): what it writes; by default the set's out.
    bytes: what it has to read and write, each once.
    """

    def __init__(self, what, calls, error, pairs, sets, limit=0.01, outputs=None, passes=1.0, bytes=None):
        self.what, self.calls, self.error, self.pairs, self.limit = what, calls, error, pairs, limit
        self.passes, self.bytes = passes, bytes
        self._sets, self._outputs = sets, outputs or (lambda i: [sets[i].out])

    def checked(self):
        """The largest error over all sets; outputs are poisoned first."""
        errors = []
        for i, call in enumerate(self.calls):
            for output in self._outputs(i):
                output.fill_(float("nan"))
            run_and_wait(call, self._sets[i].q.device)
            errors.append(self.error(i))
        return max_or_nan(errors)

    @property
    def workspace_mb(self):
        workspace = getattr(self.calls[0], "workspace", None)
        return None if workspace is None else workspace.numel() * 1e-6
