"""The composition root: the ``foveate`` command, the all-in-one run, configuration, benchmarks."""

import os

# Linear algebra here is tiny; the threads that OpenBLAS would start for it burn more time waiting than they save. It
# reads this when numpy is loaded, which the processes of this package do after this line.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
