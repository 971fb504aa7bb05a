"""The responses in answer_cases.json, which clients must accept or reject."""

import json
import pathlib

CASES = json.loads(
    (pathlib.Path(__file__).resolve().parents[2] / "clients/cpp"
     / "answer_cases.json").read_text(encoding="utf-8"))


def patched(value, change):
    """Applies a JSON merge patch (RFC 7396) and returns the result."""
    result = dict(value)
    for key, new in change.items():
        if new is None:
            result.pop(key, None)
        elif isinstance(new, dict):
            result[key] = patched(result.get(key, {}), new)
        else:
            result[key] = new
    return result
