"""One thread: the tests are many small operations, and threads would only wait for each other."""
import torch

torch.set_num_threads(1)
