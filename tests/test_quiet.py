"""What libraries say stays inside, and everybody is heard afterwards."""

from __future__ import annotations

import logging
import warnings

import pytest

from graphaudit.quiet import quiet


def test_prints_warnings_and_log_records_are_swallowed(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("torch.onnx.some.child")
    logger.setLevel(logging.DEBUG)
    handler = logging.StreamHandler()
    logger.addHandler(handler)
    try:
        with quiet():
            logger.critical("inside")
            print("printed")
            warnings.warn("warned", stacklevel=1)
        assert capfd.readouterr() == ("", "")
        logger.critical("outside")
        assert capfd.readouterr().err == "outside\n"
    finally:
        logger.removeHandler(handler)


def test_a_user_who_has_turned_logging_off_keeps_it_off() -> None:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with pytest.raises(ValueError), quiet():
            raise ValueError
        assert logging.root.manager.disable == logging.WARNING
    finally:
        logging.disable(before)
