"""A tenant finds only what it may see, in every way there is to find something (G7)."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from telegram_assistant.search.service import Search
from telegram_assistant.stores.postgres.database import as_tenant
from telegram_assistant.stores.postgres.visible_posts import VisiblePosts
from tests.integration.search.archive import Archive

pytestmark = pytest.mark.integration

TEXT = "Совет директоров обсудил секретный отчёт про нефть и утвердил дивиденды за третий квартал этого года"


async def test_nobody_finds_what_is_not_theirs(search: Search, archive: Archive) -> None:
    ann, bob = await archive.tenant("ann"), await archive.tenant("bob")
    await archive.channel(1, "public_one", ann, bob)
    await archive.channel(2, "of_ann", ann, owner=ann)
    await archive.channel(3, "of_bob", bob)
    await archive.channel(4, "of_nobody")
    await archive.run(  # a stray row must not open a private channel
        "INSERT INTO subscriptions (tenant_id, user_id, channel_id) VALUES (:tenant, :user, 2)",
        tenant=bob,
        user=archive.users[bob],
    )
    ids = {
        channel: await archive.post(channel, TEXT, channel=channel, tags=(f"tag{channel}",)) for channel in (1, 2, 3, 4)
    }
    await archive.documents.count_terms()
    for tenant, seen in ((ann, {1, 2}), (bob, {1, 3}), (await archive.tenant("new"), set())):
        for query in ("секретный отчёт", "", "=секретный", '"секретный отчёт"', "-снег", "нефть channel:@of_ann OR x"):
            results = await search.search(tenant, query)
            expected = seen & {2} if "of_ann" in query else seen
            shown = {hit.post.channel_id for hit in results.hits}
            told = {teller.channel_id for hit in results.hits for teller in hit.tellers}
            counted = {int(facet.value) for facet in results.facets.channels}
            assert shown <= expected
            assert bool(shown) == bool(expected)
            assert shown | told == (seen if expected else set()), "it is one story"
            assert counted <= expected
            assert {facet.value for facet in results.facets.tags} <= {f"tag{channel}" for channel in expected}
        posts = VisiblePosts(archive.database)
        assert set(await posts.posts(tenant, list(ids.values()))) == {ids[channel] for channel in seen}
        assert await posts.named(tenant, ["@of_nobody", "Of_Nobody", "4"]) == {}


async def test_documents_are_hidden_by_the_database_itself(archive: Archive) -> None:
    ann, bob = await archive.tenant("ann"), await archive.tenant("bob")
    await archive.channel(2, "of_ann", ann, owner=ann)
    await archive.post(1, TEXT, channel=2)
    for tenant, rows in ((ann, 1), (bob, 0)):
        async with as_tenant(archive.database, tenant) as connection:
            found = await connection.execute(text("SELECT words FROM search_documents"))
            assert len(found.all()) == rows
