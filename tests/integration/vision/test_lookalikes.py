"""Pictures in another size or quality share a result; pictures that only look alike do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from telegram_assistant.ai.vision.describer import LocalVision, known_result
from telegram_assistant.ai.vision.ocr import find_trained_data
from telegram_assistant.ai.vision.pixels import decode, fingerprint
from telegram_assistant.domain.models import Classification, Identity, Ocr, Picture, Seen, Usage
from telegram_assistant.domain.pictures import NEAR, Fingerprint, Known, bands, distance, near

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

Encode = Callable[..., bytes]
Make = Callable[..., Picture]
REMOTE = Identity("gigachat", "GigaChat-2-Pro", "1")
can_read = pytest.mark.skipif(
    find_trained_data() is None, reason="no trained data: scripts/tessdata could not fetch it here"
)


class Shelf:
    """Lookalikes in memory: by bands, as a store would find them."""

    def __init__(self, *known: Known) -> None:
        self._known = known

    async def near(self, fingerprint: Fingerprint, identity: Identity) -> Sequence[Known]:
        assert identity == REMOTE
        keys = set(bands(fingerprint.phash))
        found = [known for known in self._known if keys & set(bands(known.fingerprint.phash))]
        return sorted(found, key=lambda known: distance(known.fingerprint.phash, fingerprint.phash))


def print_of(content: bytes) -> Fingerprint:
    return fingerprint(decode(content))


def copies(image: Image.Image, encode: Encode) -> list[bytes]:
    """The ways in which one picture goes round."""
    width, height = image.size
    rotated = image.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    return [
        encode(image, "JPEG", quality=90),
        encode(image, "JPEG", quality=40),
        encode(image, "WEBP", quality=60),
        encode(image.resize((width // 2, height // 2)), "JPEG", quality=80),
        encode(image.resize((width * 3 // 2, height * 3 // 2), Image.Resampling.BICUBIC)),
        encode(image.resize((width // 3, height // 3), Image.Resampling.BILINEAR), "JPEG", quality=75),
        encode(rotated, "JPEG", exif=exif.tobytes()),
    ]


async def test_copies_are_near_and_others_are_not(pencil: Any, encode: Encode) -> None:
    originals = [pencil.photo(seed) for seed in range(5)] + [pencil.scribble(seed, (640, 426)) for seed in range(5)]
    prints = [print_of(encode(image)) for image in originals]
    missed = [
        (number, at)
        for number, image in enumerate(originals)
        for at, copy in enumerate(copies(image, encode))
        if not near(prints[number], print_of(copy))
    ]
    assert len(missed) <= len(originals) * 7 * 0.05, missed
    others = [distance(one.phash, two.phash) for at, one in enumerate(prints) for two in prints[at + 1 :]]
    assert min(others) > 2 * NEAR


async def test_plain_pictures_are_never_taken_for_each_other(encode: Encode) -> None:
    ramp = Image.linear_gradient("L").resize((300, 200)).convert("RGB")
    plain = [print_of(encode(image)) for image in (Image.new("RGB", (300, 200), "#336699"), ramp, ramp.rotate(180))]
    assert all(one.plain for one in plain)
    assert not any(near(one, two) for one in plain for two in plain)


async def test_the_same_shapes_in_other_colours_are_another_picture(pencil: Any, encode: Encode) -> None:
    image = pencil.scribble(4)
    red, green, blue = image.split()
    tinted = Image.merge("RGB", (red.point(lambda v: v // 3), green, blue))
    assert not near(print_of(encode(image)), print_of(encode(tinted)))


def remote_result(text: str | None, kind: Classification = Classification.PHOTO) -> Seen:
    return Seen(
        classification=kind,
        description="A harbour at night",
        ocr=None if text is None else Ocr(text=text, engine="gigachat", confidence=1.0),
        provider=REMOTE.provider,
        model=REMOTE.model,
        usage=Usage(tokens_in=1_800, tokens_out=90),
    )


async def test_a_smaller_copy_gets_the_result_and_costs_nothing(
    vision: LocalVision, pencil: Any, encode: Encode, picture: Make
) -> None:
    original = encode(pencil.photo(11))
    shelf = Shelf(Known("1", await vision.fingerprint(picture(original)), remote_result("")))
    copy = picture(copies(pencil.photo(11), encode)[3])
    shared = await known_result(copy, await vision.fingerprint(copy), shelf, REMOTE)
    assert shared == replace(remote_result(""), usage=Usage())
    other = picture(encode(pencil.photo(12)))
    assert await known_result(other, await vision.fingerprint(other), shelf, REMOTE) is None


@can_read
async def test_cards_that_differ_in_a_number_do_not_share(
    vision: LocalVision, pencil: Any, encode: Encode, picture: Make
) -> None:
    def card(rate: str) -> Image.Image:
        image = Image.open(BytesIO(encode(pencil.scribble(7, (640, 426))))).convert("RGB")
        image.paste("white", (0, 0, 640, 160))
        pencil.text(image, ["The dollar today", f"{rate} roubles"], 32, "black")
        return image

    original = picture(card("92,17"))
    mine = await vision.fingerprint(original)
    read = (await vision.describe(original)).ocr
    assert read is not None
    assert "92,17" in read.text
    shelf = Shelf(Known("1", mine, remote_result(read.text)))

    smaller = picture(card("92,17").resize((480, 320)), "JPEG", quality=85)
    assert await known_result(smaller, await vision.fingerprint(smaller), shelf, REMOTE) is None, "nobody read it"
    assert await known_result(smaller, await vision.fingerprint(smaller), shelf, REMOTE, reader=vision) is not None

    tomorrow = picture(card("89,34"))
    its = await vision.fingerprint(tomorrow)
    assert near(mine, its), "the trap: as pictures they are the same"
    assert await known_result(tomorrow, its, shelf, REMOTE, reader=vision) is None
