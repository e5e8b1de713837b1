"""A page tells the story of its posts: the same facts, in the language of who told it first, and long enough."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
import trafilatura

from telegram_simulator.article import article_html, write_article
from telegram_simulator.draft import Draft
from telegram_simulator.model import Channel
from telegram_simulator.phrasebook import LANGUAGES, phrasebook, plots
from telegram_simulator.texts import Story, new_story, story_of
from telegram_simulator.voices import TOPICS

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOST = "http://pages.test"


def channel(language: str, title: str = "The Channel") -> Channel:
    return Channel(1, 1, title, "channel", NOW, language=language)


def stories() -> list[Story]:
    """At least one of every kind."""
    rng = Random(5)
    made = [new_story(rng, topic, number, 1, NOW) for topic in TOPICS for number in range(30)]
    made += [story_of(kind, rng, 1000, 1, NOW) for kind, plot in plots().items() if plot.event]
    assert {story.kind for story in made} == plots().keys()
    return made


def text_of(html: str) -> str:
    return trafilatura.extract(html.replace("\N{NO-BREAK SPACE}", " "), include_comments=False) or ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_of_story_makes_a_text_of_600_characters(language: str) -> None:
    for story in stories():
        article = write_article(story, channel(language), HOST)
        text = text_of(article_html(article))
        assert len(text) >= 600, (story.kind, text)
        assert all(paragraph.replace("\N{NO-BREAK SPACE}", " ") in text for paragraph in article.paragraphs)


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_that_posts_say_of_a_story_is_in_its_page(language: str) -> None:
    book = phrasebook(language)
    for story in stories():
        text = " ".join(write_article(story, channel(language), HOST).paragraphs)
        for sentence in book.kinds[story.kind].details:
            draft = Draft()
            draft.say(book, sentence, story.facts)
            assert draft.plain() in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_stands_around_the_text_is_not_taken_for_it(language: str) -> None:
    book = phrasebook(language)
    html = article_html(write_article(stories()[0], channel(language), HOST))
    menu = "\n".join(book.hashtags[topic][0] for topic in TOPICS)
    for line in (*book.phrases["boilerplate"], menu, "The Channel"):
        assert all(part in html for part in line.split("\n"))
        assert line not in text_of(html)


def test_the_head_says_what_the_page_is() -> None:
    story = stories()[0]
    article = write_article(story, channel("ru"), HOST)
    about = trafilatura.extract_metadata(article_html(article))
    assert (about.title, about.sitename, about.date) == (article.title, "The Channel", "2026-03-02")
    assert about.description == article.description
    assert about.url == article.address == f"{HOST}/{story.topic}/{story.kind}-{story.id}"
    assert f"<h1>{article.title}</h1>" in article_html(article)


def test_a_page_is_the_same_whenever_it_is_asked_for() -> None:
    for one, two in zip(stories(), stories(), strict=True):
        two.told_by.add(99)
        assert write_article(one, channel("en"), HOST) == write_article(two, channel("en"), HOST)


def test_text_is_never_markup() -> None:
    html = article_html(write_article(stories()[0], channel("en", "<b>Q&A</b>"), 'http://x/"><script>'))
    assert "&lt;b&gt;Q&amp;A&lt;/b&gt;" in html
    assert "<b>Q" not in html
    assert "<script>" not in html
