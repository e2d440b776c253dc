"""Progress bars as tqdm's, for programs and their workers: several at once, and nothing that is printed gets lost."""

from kernel_parallel.progress.bars import tqdm, trange
from kernel_parallel.progress.board import show

__all__ = ["show", "tqdm", "trange"]
