"""What a web page says about a story: the facts of the posts, at greater length and in one language."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from html import escape
from random import Random

from telegram_simulator.draft import Draft
from telegram_simulator.model import Channel
from telegram_simulator.phrasebook import Phrasebook, Sentence, phrasebook
from telegram_simulator.pictures import Picture, plan_picture
from telegram_simulator.texts import Story, link_to
from telegram_simulator.voices import TOPICS


@dataclass(slots=True, frozen=True)
class Article:
    """A page before it is HTML."""

    address: str
    site: str
    language: str
    published: datetime
    title: str
    description: str
    paragraphs: tuple[str, ...]
    picture: Picture


def write_article(story: Story, channel: Channel, host: str) -> Article:
    """The page of a story, in the words of the channel that told it first. The same whenever it is asked for."""
    rng, book = Random(f"page/{story.id}"), phrasebook(channel.language)
    kind = book.kinds[story.kind]
    title, lead = (_say(book, story, line) for line in rng.sample(kind.headlines, 2))
    d = [_say(book, story, sentence) for sentence in rng.sample(kind.details, len(kind.details))]
    more = rng.sample(book.more[story.topic], 4)
    known = rng.sample(book.phrases["background"], 3)
    paragraphs = (
        (_stopped(lead), d[0], d[1]),
        (d[2], more[0], d[3]),
        (known[0], d[4], more[1]),
        (*d[5:], more[2], known[1]),
        (known[2], more[3]),
    )
    return Article(
        address=link_to(story, host),
        site=channel.title,
        language=channel.language,
        published=story.date,
        title=title,
        description=f"{d[0]} {d[2]}",
        paragraphs=tuple(" ".join(sentences) for sentences in paragraphs),
        picture=plan_picture(rng, (title, more[0]), "card"),
    )


def article_html(article: Article) -> str:
    """The page, with everything around the text that real pages have."""
    head = f"""\
<meta name="description" content="{escape(article.description)}">
<meta property="og:type" content="article">
<meta property="og:title" content="{escape(article.title)}">
<meta property="og:site_name" content="{escape(article.site)}">
<meta property="og:image" content="{escape(article.address)}.jpg">
<meta property="article:published_time" content="{article.published.isoformat()}">
<link rel="canonical" href="{escape(article.address)}">"""
    text = "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in article.paragraphs)
    picture = article.picture
    body = f"""\
<article>
<h1>{escape(article.title)}</h1>
<time datetime="{article.published.isoformat()}">{article.published:%Y-%m-%d %H:%M} UTC</time>
<img src="{escape(article.address)}.jpg" alt="" width="{picture.width}" height="{picture.height}">
{text}
</article>"""
    return page_html(article.language, article.site, article.title, body, head)


def page_html(language: str, site: str, title: str, body: str, head: str = "") -> str:
    """A page of the site; `body` and `head` are HTML, the rest is text."""
    book = phrasebook(language)
    menu = "\n".join(f'<li><a href="/{topic}">{escape(book.hashtags[topic][0])}</a></li>' for topic in TOPICS)
    *small_print, consent = (f"<p>{escape(line)}</p>" for line in book.phrases["boilerplate"])
    return f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
{head}
<style>body {{ max-width: 42rem; margin: auto; padding: 1rem; font: 1.1rem/1.5 sans-serif }}
nav li {{ display: inline; margin-right: 1rem }} img {{ max-width: 100%; height: auto }}</style>
</head>
<body>
<header><a href="/">{escape(site)}</a>
<nav><ul>
{menu}
</ul></nav></header>
<main>
{body}
</main>
<footer>
{"".join(small_print)}
</footer>
<div class="cookie-banner" role="dialog">{consent}</div>
</body>
</html>
"""


def _say(book: Phrasebook, story: Story, sentence: Sentence) -> str:
    draft = Draft()
    draft.say(book, sentence, story.facts)
    return draft.plain()


def _stopped(line: str) -> str:
    return line if line[-1] in ".!?" else f"{line}."
