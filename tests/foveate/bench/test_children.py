"""Programs under measurement: their CPU time, their faults, their end."""

import sys
from pathlib import Path

import pytest

from foveate.bench.children import run_child
from pipeline.errors import BrokerError, FoveateError, SourceError

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_cpu_time_is_that_of_the_program(tmp_path: Path) -> None:
    burnt_s, idle_s = (run_child(python(code), tmp_path / "log") for code in (BURN, "pass"))
    assert burnt_s >= 0.3
    assert burnt_s > idle_s


def test_cpu_time_of_the_programs_that_it_starts_is_counted(tmp_path: Path) -> None:
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
    assert run_child(python(code), tmp_path / "log") >= 0.3


@pytest.mark.parametrize(("code", "error"), [(3, SourceError), (4, BrokerError), (9, FoveateError)])
def test_a_failure_becomes_the_error_of_its_exit_code_with_its_last_words(
    tmp_path: Path, code: int, error: type[FoveateError]
) -> None:
    program = f"import sys\nprint('working', flush=True)\nprint('port 1 is taken', file=sys.stderr)\nsys.exit({code})"
    with pytest.raises(error, match=f"ended with code {code}: port 1 is taken") as caught:
        run_child(python(program), tmp_path / "log")
    assert type(caught.value) is error


def test_a_failure_without_words_says_so(tmp_path: Path) -> None:
    with pytest.raises(FoveateError, match="ended with code 1: it said nothing"):
        run_child(python("raise SystemExit(1)"), tmp_path / "log")


def test_a_program_that_hangs_is_stopped(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = f"import time\ntry: time.sleep(60)\nfinally: open({str(mark)!r}, 'w').close()"
    ready = f"import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n{code}"
    with pytest.raises(FoveateError, match="was not done within 1 s and was stopped"):
        run_child(python(ready), tmp_path / "log", limit_s=1.0)
    assert mark.exists()
