from small import KEY

from rllc.track import secrets


def test_secrets_are_masked_and_nothing_else():
    asked = {
        "api_key": "x",
        "hub": [{"token": "y"}],
        "key": "k",
        "n": 3,
        "path": "s3://me:pw@host/a",
        "note": f"<{KEY}>",
    }
    hidden = secrets.hide(asked, {"WANDB_API_KEY": KEY, "OTHER": "host", "A_TOKEN": "short"})
    assert hidden == {
        "api_key": "***",
        "hub": [{"token": "***"}],
        "key": "k",
        "n": 3,
        "path": "s3://***@host/a",
        "note": "<***>",
    }


def test_a_fault_is_told_in_its_first_line_without_secrets(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    assert secrets.sentence(ValueError(f"no {KEY}.\nand more")) == "ValueError: no ***"
    assert secrets.sentence(KeyError()) == "KeyError"
