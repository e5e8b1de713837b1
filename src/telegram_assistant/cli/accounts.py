"""`tga login` and `tga accounts`: the Telegram accounts that read."""

from __future__ import annotations

import io
from typing import Annotated

import segno
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from telegram_assistant.cli.session import with_runtime
from telegram_assistant.config import load_settings
from telegram_assistant.domain.proxies import parse_choice
from telegram_assistant.errors import Fatal
from telegram_assistant.source.telegram_login import login_by_phone, login_by_qr
from telegram_assistant.stores.postgres.accounts import Account, TelegramAccounts
from telegram_assistant.stores.postgres.takeouts import AccountTakeouts
from telegram_assistant.wiring.connecting import open_accounts
from telegram_assistant.wiring.ingest import login_client
from telegram_assistant.wiring.runtime import Runtime

console = Console()
_PROXY = "Address of the proxy"


def login(
    phone: Annotated[
        str | None, typer.Option(help="Log in with a code sent to this number instead of a QR code.", metavar="+PHONE")
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="A proxy for this account, now and later; `direct` for none. `-`: ask for it.", metavar="ADDRESS"
        ),
    ] = None,
) -> None:
    if load_settings().demo:
        raise Fatal(
            "Telegram wants to know which application logs in: get TELEGRAM_API_ID and TELEGRAM_API_HASH from"
            " my.telegram.org, put them into .env, and try again"
        )

    own = None if proxy is None else _checked(_prompt_secret(_PROXY) if proxy == "-" else proxy)

    async def work(runtime: Runtime) -> None:
        client = login_client(runtime.settings, own)
        if phone is None:
            console.print("Telegram on your phone: Settings → Devices → Link Desktop Device, and scan this:")
            done = await login_by_qr(client, _show_qr, _ask_secret)
        else:
            done = await login_by_phone(client, phone, _ask, _ask_secret)
        account = done.account
        accounts = open_accounts(runtime)
        await accounts.add(telegram_user_id=account.id, name=account.name, session=done.session, proxy=own)
        console.print(f"[green]✓[/] {escape(account.name)} reads from now on. `tga channels add @name` says what.")

    with_runtime(work)


def list_() -> None:
    async def work(runtime: Runtime) -> None:
        table = Table(
            Column("id", no_wrap=True, min_width=36), "name", "state", Column("way", overflow="fold"), "waits", "error"
        )
        accounts = open_accounts(runtime)
        known = await AccountTakeouts(runtime.database).known(runtime.clock())
        takeouts = {one.account_id: [("takeout", one.until)] for one in known if one.until}
        for account in await accounts.all():
            waits = ", ".join(
                f"{what} until {until:%Y-%m-%d %H:%M:%S} UTC"
                for what, until in [*account.floods.items(), *takeouts.get(account.id, ())]
                if until > runtime.clock()
            )
            # Text, not str: a name may hold brackets, which are markup to the table.
            error = Text(account.last_error or "")
            table.add_row(
                account.id, Text(account.name), account.status, _way(runtime, accounts, account), waits, error
            )
        console.print(table if table.row_count else "No accounts yet: tga login")

    with_runtime(work)


def change_proxy(
    account: Annotated[str, typer.Argument(help="Id, as `tga accounts list` shows it.", metavar="ID")],
    address: Annotated[
        str,
        typer.Argument(
            help="socks5://…, http://…, a link to an MTProxy, `direct`, or `default` for what the settings say. `-`:"
            " ask for it, so that its password stays out of the shell's history.",
        ),
    ],
) -> None:
    given = _prompt_secret(_PROXY) if address == "-" else address
    own = None if given.strip().lower() == "default" else _checked(given)

    async def work(runtime: Runtime) -> None:
        accounts = open_accounts(runtime)
        found = next((one for one in await accounts.all() if one.id == account.lower()), None)
        if found is None:
            raise Fatal(f"There is no account {account}: tga accounts list shows them")
        await accounts.go_through(found, own)
        shown = runtime.settings.account_proxy(own)
        way = "directly" if shown is None else f"through {shown.shown}"
        console.print(f"{escape(found.name)} goes {way} from now on. `tga doctor` tells whether that works.")

    with_runtime(work)


def ask_takeout(
    account: Annotated[str, typer.Argument(help="Id, as `tga accounts list` shows it.", metavar="ID")],
) -> None:
    async def work(runtime: Runtime) -> None:
        if not await AccountTakeouts(runtime.database).write(account):
            raise Fatal(f"There is no account {account}: tga accounts list shows them")
        console.print("Telegram is asked again with the next page of a large history.")

    with_runtime(work)


def _checked(text: str) -> str:
    try:
        parse_choice(text)
    except ValueError as exc:
        raise Fatal(str(exc)) from exc
    return text.strip()


def _way(runtime: Runtime, accounts: TelegramAccounts, account: Account) -> str:
    try:
        proxy = runtime.settings.account_proxy(accounts.proxy(account))
    except Fatal:
        return "unknown"  # sealed with another key: the state says so
    return "directly" if proxy is None else proxy.shown


def remove(account: Annotated[str, typer.Argument(help="Id, as `tga accounts list` shows it.", metavar="ID")]) -> None:
    async def work(runtime: Runtime) -> None:
        if not await open_accounts(runtime).remove(account):
            raise Fatal(f"There is no account {account}: tga accounts list shows them")
        console.print("Forgotten. To end the session in Telegram too: Settings → Devices on your phone.")

    with_runtime(work)


def _show_qr(address: str) -> None:
    picture = io.StringIO()
    segno.make(address, micro=False).terminal(out=picture, compact=True)
    typer.echo(picture.getvalue())
    typer.echo(f"or open {address} on a phone that is logged in")


async def _ask(prompt: str) -> str:
    answer: str = typer.prompt(prompt)
    return answer


async def _ask_secret(prompt: str) -> str:
    return _prompt_secret(prompt)


def _prompt_secret(prompt: str) -> str:
    answer: str = typer.prompt(prompt, hide_input=True)
    return answer
