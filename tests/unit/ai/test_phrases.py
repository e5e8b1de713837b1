"""Which phrases of a text are one."""

from telegram_assistant.ai.local.phrases import Phrase, gathered


def test_a_first_name_or_surname_alone_belongs_to_the_whole_name() -> None:
    alone = Phrase("Маск", ("маск",), [0], name=True, person=True)
    whole = Phrase("Илон Маск", ("илон", "маск"), [7], name=True, person=True)
    first = Phrase("Илон", ("илон",), [20], name=True, person=True)
    assert [(one.text, one.places) for one in gathered([alone, whole, first])] == [("Илон Маск", [0, 7, 20])]


def test_a_country_does_not_belong_to_its_bank() -> None:
    bank = Phrase("Банк России", ("банк", "россия"), [0], name=True)
    country = Phrase("Россия", ("россия",), [5], name=True)
    assert [one.text for one in gathered([bank, country])] == ["Банк России", "Россия"]
