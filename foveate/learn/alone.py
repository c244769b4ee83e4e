"""See that no two processes learn for one camera in one state folder: each would delete what the other works in."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from foveate.learn.folders import CameraFolders
from foveate.plan import Plan
from pipeline.errors import ConfigError


@contextlib.contextmanager
def held(lock: Path, taken: str) -> Iterator[None]:
    """Hold a lock file while the block runs; the system gives it back however the process ends (``flock(2)``).

    Blocks no longer than the file system. Raises ConfigError: ``taken`` where another process holds it, or why there
    can be no such file.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise ConfigError(
            f"the state folder cannot be written ({lock.parent}: {os.strerror(error.errno or 0)}): name another one, "
            f"as agent.state_dir or with --state-dir."
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(taken) from None
        except OSError:  # a file system without locks: it goes without
            pass
        yield


def is_held(lock: Path) -> bool:
    """Whether a process holds a lock file; one that is absent is not held."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextlib.contextmanager
def learning_alone(plan: Plan) -> Iterator[None]:
    """Hold the state of all cameras that an agent learns for, while the block runs. Raises ConfigError."""
    state_dir = plan.agent.state_dir
    if state_dir is None or not plan.learn.enabled:
        yield
        return
    with contextlib.ExitStack() as locks:
        for camera in plan.agent.cameras:
            if camera.lessons.enabled:
                taken = (
                    f"another agent learns for the camera {camera.name} in {state_dir}: give each agent a folder of "
                    f"its own (agent.state_dir), or the camera another name."
                )
                locks.enter_context(held(CameraFolders(state_dir, camera.name).agent_lock, taken))
        yield
