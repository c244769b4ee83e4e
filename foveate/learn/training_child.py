"""The process that trains: ``foveate.training`` with a lifeline to whoever has started it.

Started as ``python -m foveate.learn.training_child ORDER.json LESSONS_DIR``; standard input is the lifeline. Not to be
imported: what it runs needs PyTorch.
"""

import runpy

from foveate.learn.child import hold_to_parent

if __name__ == "__main__":
    hold_to_parent()
    runpy.run_module("foveate.training", run_name="__main__", alter_sys=True)
