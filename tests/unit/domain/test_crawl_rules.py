"""Which links are read: every rule decides once, and says so."""

from __future__ import annotations

import pytest

from telegram_assistant.crawl.rules import BadRules, CrawlRules, Interests, Rule, Subject, decide, parse_rules

pytestmark = pytest.mark.unit

POST = Subject(text="Учёные представили модель погоды", topics=("Наука",), tags=("погода", "модель"))
RULES = CrawlRules(
    skip_extensions=frozenset({"pdf", "zip"}),
    deny=frozenset({"spam.example"}),
    social=frozenset({"x.com"}),
    shorteners=frozenset({"clck.ru"}),
)


def rule_of(
    link: str, rules: CrawlRules = RULES, subject: Subject = POST, **options: frozenset[tuple[str, int]]
) -> Rule:
    [decision] = decide([link], subject, rules, **options)
    assert decision.reason
    assert decision.crawl == (decision.rule is Rule.ARTICLE)
    return decision.rule


def test_an_ordinary_link_is_read_under_its_canonical_name() -> None:
    [decision] = decide(["HTTPS://News.example/1?utm_source=tg#top"], POST, RULES)
    assert (decision.crawl, decision.rule, decision.url) == (True, Rule.ARTICLE, "https://news.example/1")


@pytest.mark.parametrize(
    "link,rule",
    [
        ("mailto:a@b.example", Rule.ADDRESS),
        ("http://user@b.example/x", Rule.ADDRESS),
        ("http://127.0.0.1/x", Rule.ADDRESS),
        ("http://169.254.169.254/latest", Rule.ADDRESS),
        ("http://b.example:6379/x", Rule.ADDRESS),
        ("https://t.me/channel/1", Rule.TELEGRAM),
        ("tg://resolve?domain=channel", Rule.TELEGRAM),
        ("https://spam.example/x", Rule.DENIED),
        ("https://www.spam.example/x", Rule.DENIED),
        ("https://notspam.example/x", Rule.ARTICLE),
        ("https://x.com/user/status/1", Rule.SOCIAL),
        ("https://netflix.com/title", Rule.ARTICLE),
        ("https://clck.ru/abc", Rule.ARTICLE),
        ("https://b.example/report.PDF?download=1", Rule.FILE),
        ("https://b.example/a.zip/page", Rule.ARTICLE),
        ("https://b.example/report.html", Rule.ARTICLE),
        ("https://b.example/", Rule.HOME_PAGE),
        ("https://b.example/?utm_source=tg", Rule.HOME_PAGE),
        ("https://b.example/?p=12", Rule.ARTICLE),
    ],
)
def test_each_rule_about_addresses(link: str, rule: Rule) -> None:
    assert rule_of(link) is rule


def test_switches_turn_a_rule_round() -> None:
    open_rules = parse_rules(
        "[links]\nhome_pages = true\n[domains]\nread_social = true\nallow = ['b.example', 'x.com']",
        RULES,
    )
    assert rule_of("https://b.example/", open_rules) is Rule.ARTICLE
    assert rule_of("https://x.com/user/status/1", open_rules) is Rule.ARTICLE
    assert rule_of("https://c.example/1", open_rules) is Rule.NOT_ALLOWED
    assert rule_of("https://sub.b.example/1", open_rules) is Rule.ARTICLE
    assert rule_of("https://clck.ru/1", parse_rules("[domains]\nfollow_shorteners = false", RULES)) is Rule.SHORTENER


def test_deny_wins_over_allow() -> None:
    rules = parse_rules("[domains]\nallow = ['b.example']\ndeny = ['bad.b.example']")
    assert rule_of("https://b.example/1", rules) is Rule.ARTICLE
    assert rule_of("https://x.bad.b.example/1", rules) is Rule.DENIED


def test_an_allowed_loopback_page_is_read_and_no_other_port() -> None:
    allow = frozenset({("127.0.0.1", 8099)})
    assert rule_of("http://127.0.0.1:8099/page", allow=allow) is Rule.ARTICLE
    assert rule_of("http://127.0.0.1:8098/page", allow=allow) is Rule.ADDRESS


def test_only_so_many_links_of_a_post_and_each_page_once() -> None:
    links = [
        "https://b.example/1",
        "https://t.me/x",
        "https://b.example/1?utm_source=x",
        "https://b.example/2",
        "https://b.example/3",
        "https://b.example/4",
    ]
    decisions = decide(links, POST, RULES)
    assert [decision.rule for decision in decisions] == [
        Rule.ARTICLE,
        Rule.TELEGRAM,
        Rule.REPEATED,
        Rule.ARTICLE,
        Rule.ARTICLE,
        Rule.MOST_LINKS,
    ]
    assert decisions[-1].reason == "at most 3 links of a post are read"
    assert decide(links, POST, CrawlRules(most_links=0))[0].rule is Rule.MOST_LINKS
    assert decide([], POST, RULES) == ()


def test_short_posts_and_other_subjects_are_left_out() -> None:
    link = "https://b.example/1"
    assert rule_of(link, CrawlRules(least_text=33)) is Rule.SHORT_POST
    assert rule_of(link, CrawlRules(least_text=32)) is Rule.ARTICLE
    assert rule_of(link, parse_rules("[posts]\ntopics = ['Спорт']")) is Rule.SUBJECT
    assert rule_of(link, parse_rules("[posts]\ntopics = ['наукА']")) is Rule.ARTICLE
    assert rule_of(link, parse_rules("[posts]\ntopics = ['Спорт']\ntags = ['Погода']")) is Rule.ARTICLE


@pytest.mark.parametrize(
    "interests,mode,rule",
    [
        ((), Interests.ALSO, Rule.SUBJECT),
        (("Погода",), Interests.ALSO, Rule.ARTICLE),
        (("наука",), Interests.ALSO, Rule.ARTICLE),
        (("спорт",), Interests.ALSO, Rule.SUBJECT),
        (("погода",), Interests.IGNORE, Rule.SUBJECT),
        (("погода",), Interests.ONLY, Rule.ARTICLE),
        ((), Interests.ONLY, Rule.SUBJECT),
    ],
)
def test_interests_of_users_widen_or_narrow(interests: tuple[str, ...], mode: Interests, rule: Rule) -> None:
    rules = CrawlRules(topics=frozenset({"спорт"}), interests=mode)
    subject = Subject(text=POST.text, topics=POST.topics, tags=POST.tags, interests=interests)
    assert rule_of("https://b.example/1", rules, subject) is rule


def test_a_wrapped_link_is_judged_by_where_it_leads() -> None:
    assert rule_of("https://vk.com/away.php?to=https%3A%2F%2Fspam.example%2Fx") is Rule.DENIED
    assert rule_of("https://vk.com/away.php?to=http%3A%2F%2F10.0.0.1%2F") is Rule.ADDRESS


@pytest.mark.parametrize(
    "text,message",
    [
        ("[links", "not proper TOML"),
        ("most_links = 3", "there is no table \\[most_links\\]; there are \\[posts\\], \\[links\\], \\[domains\\]"),
        ("[link]\nmost_links = 3", "there is no table \\[link\\]"),
        ("[links]\nmost = 3", "\\[links\\] has no most; it has most_links, home_pages, skip_extensions"),
        ("[links]\nmost_links = -1", "must be a number from 0 to 100000, not -1"),
        ("[links]\nmost_links = true", "must be a number"),
        ("[links]\nmost_links = '3'", "must be a number"),
        ("[links]\nhome_pages = 1", "must be true or false"),
        ("[posts]\ntopics = 'news'", "must be a list of words"),
        ("[posts]\ntopics = [1]", "must be a list of words"),
        ("[posts]\ninterests = 'never'", "must be one of ignore, also, only"),
        ("[posts]\ninterests = ['also']", "must be one of ignore, also, only"),
        ("[domains]\ndeny = ['https://b.example/']", "is no domain: write it like example.com"),
    ],
)
def test_a_bad_file_says_what_to_correct(text: str, message: str) -> None:
    with pytest.raises(BadRules, match=message):
        parse_rules(text)


def test_domains_and_extensions_may_be_written_in_any_way() -> None:
    rules = parse_rules("[links]\nskip_extensions = ['.PDF']\n[domains]\ndeny = ['Пример.РФ']")
    assert rules.skip_extensions == {"pdf"}
    assert rule_of("https://www.пример.рф/1", rules) is Rule.DENIED
