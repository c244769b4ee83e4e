"""The command's door."""

import sys

import pytest

from foveate.__main__ import main


class Interrupted:
    """An import during which somebody presses Ctrl-C."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "foveate.cli":
            raise KeyboardInterrupt


def test_a_command_that_is_stopped_while_it_loads_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "foveate.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")
