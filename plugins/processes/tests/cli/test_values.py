"""Values of options of the command line."""

from __future__ import annotations

import pytest

from kernel_processes.cli.values import Labels, labels_in


def test_labels_may_be_listed() -> None:
    assert Labels().convert("zone=a, disk=ssd,empty=", None, None) == {"zone": "a", "disk": "ssd", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        '{"zone": "a", "example.com/disk": "ssd"}',
        "zone: a\nexample.com/disk: ssd\n",
        "---\n# where it is\nzone: 'a'  # the first\n\n\"example.com/disk\": ssd\n",
    ],
)
def test_a_file_of_labels(text: str) -> None:
    assert labels_in(text) == {"zone": "a", "example.com/disk": "ssd"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zone", "'zone' is not a label; write NAME: VALUE"),
        ("{zone: a}", "Expecting property name"),
        ("zone: a b", "label 'zone' can't have the value 'a b'"),
        ('{"zone": 1}', "label 'zone' can't have the value 1"),
    ],
)
def test_a_file_that_has_no_labels_says_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        labels_in(text)
