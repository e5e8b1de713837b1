"""`tga login` and `tga accounts`: the Telegram accounts that read."""

from __future__ import annotations

import io
from typing import Annotated

import segno
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from telegram_assistant.cli.session import with_runtime
from telegram_assistant.config import load_settings
from telegram_assistant.errors import Fatal
from telegram_assistant.source.telegram_login import login_by_phone, login_by_qr
from telegram_assistant.wiring.ingest import login_client, open_accounts
from telegram_assistant.wiring.runtime import Runtime

console = Console()


def login(
    phone: Annotated[
        str | None, typer.Option(help="Log in with a code sent to this number instead of a QR code.", metavar="+PHONE")
    ] = None,
) -> None:
    if load_settings().demo:
        raise Fatal(
            "Telegram wants to know which application logs in: get TELEGRAM_API_ID and TELEGRAM_API_HASH from"
            " my.telegram.org, put them into .env, and try again"
        )

    async def work(runtime: Runtime) -> None:
        client = login_client(runtime.settings)
        if phone is None:
            console.print("Telegram on your phone: Settings → Devices → Link Desktop Device, and scan this:")
            done = await login_by_qr(client, _show_qr, _ask_secret)
        else:
            done = await login_by_phone(client, phone, _ask, _ask_secret)
        account = done.account
        await open_accounts(runtime).add(telegram_user_id=account.id, name=account.name, session=done.session)
        console.print(f"[green]✓[/] {escape(account.name)} reads from now on. `tga channels add @name` says what.")

    with_runtime(work)


def list_() -> None:
    async def work(runtime: Runtime) -> None:
        table = Table("id", "name", "state", "waits", "error")
        for account in await open_accounts(runtime).all():
            waits = ", ".join(
                f"{method} until {until:%Y-%m-%d %H:%M:%S} UTC"
                for method, until in account.floods.items()
                if until > runtime.clock()
            )
            # Text, not str: a name may hold brackets, which are markup to the table.
            table.add_row(account.id, Text(account.name), account.status, waits, Text(account.last_error or ""))
        console.print(table if table.row_count else "No accounts yet: tga login")

    with_runtime(work)


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


def _ask(prompt: str) -> str:
    answer: str = typer.prompt(prompt)
    return answer


def _ask_secret(prompt: str) -> str:
    answer: str = typer.prompt(prompt, hide_input=True)
    return answer
