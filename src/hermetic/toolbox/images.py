"""Images in the answer of a tool, for interfaces that show them to a model."""

import json
from typing import Any

from hermetic.contract.tool import Fields


def split_images(text: str, answer: Fields) -> tuple[str, list[Fields]]:
    """The text of an answer without the data of its images, and the images:

    `data` in base64, `media_type`.
    """
    files = answer.get("files") or []
    images = [file for file in files if _is_image(file)]
    if not images:
        return text, []
    return json.dumps(
        {**answer, "files": [_without_data(file) if file in images else file for file in files]}
    ), images


def _is_image(file: Any) -> bool:
    return (
        isinstance(file, dict)
        and str(file.get("media_type", "")).startswith("image/")
        and "data" in file
    )


def _without_data(file: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in file.items() if name != "data"}
