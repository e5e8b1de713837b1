"""A Telegram account that is connected on the page: signed in as by `tga login`, stored in the same way.

From the demo it takes a new start. Until then the session waits in the folder of keys, sealed as in the database.
"""

from __future__ import annotations

import json
import os

from pydantic import SecretStr

from telegram_assistant.config import Settings, keep_application
from telegram_assistant.services.connect_desk import ConnectDesk, Talk, Wish
from telegram_assistant.stores.postgres.accounts import TelegramAccounts
from telegram_assistant.wiring.runtime import Runtime

WAITING = "new_account"  # in the folder of keys


def open_accounts(runtime: Runtime) -> TelegramAccounts:
    """The accounts' sessions, sealed with the configured key or with one of the data folder."""
    return TelegramAccounts(runtime.database, runtime.sealer())


def open_connect_desk(runtime: Runtime) -> ConnectDesk:
    async def sign_in(wish: Wish, talk: Talk) -> tuple[str, bool]:
        from telegram_assistant.source.telegram_login import login_by_phone, login_by_qr  # noqa: PLC0415 - Telethon
        from telegram_assistant.wiring.ingest import login_client  # noqa: PLC0415 - Telethon

        application = wish.application
        client = login_client(runtime.configured if application is None else _with(runtime.configured, wish))
        if wish.phone:
            done = await login_by_phone(client, wish.phone, talk.code, talk.password)
        else:
            done = await login_by_qr(client, talk.show, talk.password)
        account = done.account
        if application is None:
            await open_accounts(runtime).add(telegram_user_id=account.id, name=account.name, session=done.session)
            return account.name, False
        keep_account(runtime, account.id, account.name, done.session)
        keep_application(runtime.folder.path / "keys", application.api_id, application.api_hash)
        return account.name, True

    return ConnectDesk(sign_in, runtime.restart, needs_application=runtime.demo)


def _with(settings: Settings, wish: Wish) -> Settings:
    assert wish.application is not None  # noqa: S101 - see above
    given = wish.application
    values = {"telegram_api_id": given.api_id, "telegram_api_hash": SecretStr(given.api_hash)}
    return settings.model_copy(update=values)


def keep_account(runtime: Runtime, telegram_user_id: int, name: str, session: str) -> None:
    """For the next start, which has another database than the demo."""
    told = json.dumps({"telegram_user_id": telegram_user_id, "name": name, "session": session})
    path = runtime.folder.path / "keys" / WAITING
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(runtime.sealer().seal(told, owner=WAITING))
    draft.replace(path)


async def take_kept_account(runtime: Runtime) -> None:
    """After that start: into the database, and out of the folder."""
    path = runtime.folder.path / "keys" / WAITING
    if runtime.demo or not path.exists():
        return
    await open_accounts(runtime).add(**json.loads(runtime.sealer().unseal(path.read_bytes(), owner=WAITING)))
    path.unlink()
