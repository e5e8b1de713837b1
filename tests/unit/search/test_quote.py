"""The passage of a source that is shown beside an answer."""

from telegram_assistant.search.ask import LONGEST_QUOTE, quote

LONG = "Утром в городе шёл дождь, и на улицах стояли лужи по колено. " * 8
SAYS = "Мост через реку открыли в субботу."


def test_the_sentence_that_says_it_is_shown_and_not_the_beginning() -> None:
    shown = quote(f"{LONG}{SAYS} Первым проехал мэр.", ["Мост открыли в субботу"])
    assert SAYS in shown
    assert len(shown) <= LONGEST_QUOTE + 10


def test_an_answer_in_other_letters_shows_the_beginning() -> None:
    assert quote(f"{SAYS} {LONG}", ["The bridge was opened"]).startswith(SAYS)
    assert quote("", ["x"]) == ""
