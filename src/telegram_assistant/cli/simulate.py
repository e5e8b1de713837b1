"""`tga simulate`: the simulated Telegram alone, to develop or test against."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from telegram_assistant.errors import Fatal
from telegram_assistant.terminal import stop_signals
from telegram_simulator.faults import Fault, load_faults
from telegram_simulator.generate import build_world
from telegram_simulator.life import Life
from telegram_simulator.model import Ids
from telegram_simulator.server import Simulator
from telegram_simulator.truth import write_truth
from telegram_simulator.world import World

TRUTH_SECONDS = 5.0


def simulate(
    *,
    channels: Annotated[int, typer.Option(min=1, help="How many channels.")] = 12,
    posts: Annotated[int, typer.Option(min=0, help="Messages per channel, on average.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed makes the same world.")] = 7,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    readers: Annotated[int, typer.Option(min=1, help="Accounts to log in as.")] = 1,
    speed: Annotated[float, typer.Option(min=0, help="How fast the world lives; 0: it stands still.")] = 1.0,
    ids: Annotated[
        Ids, typer.Option(help="How messages are numbered: each channel from 1, or all channels in one sequence.")
    ] = Ids.DENSE,
    faults: Annotated[Path | None, typer.Option(help="JSON file of faults, see docs/simulator.md.")] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Write what a perfect capture would hold, again and again.")
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="Folder for the public key and the sessions.")] = None,
) -> None:
    try:
        book = load_faults(faults) if faults else []
    except ValueError as exc:
        raise Fatal(str(exc)) from exc
    home = keys or Path("data/simulate")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    world = build_world(seed=seed, channels=channels, posts=posts, readers=readers, ids=ids)
    asyncio.run(_serve(world, book, port=port, seed=seed, speed=speed, truth=truth, keys=home))


async def _serve(
    world: World, faults: list[Fault], *, port: int, seed: int, speed: float, truth: Path | None, keys: Path
) -> None:
    simulator = Simulator(world, port=port, faults=faults, state_path=keys / "sessions.json")
    with stop_signals() as stopped:
        try:
            await simulator.start()
        except OSError as exc:
            raise Fatal(f"Cannot listen on 127.0.0.1:{port} ({exc.strerror}): choose another --port") from exc
        pem = keys / "key.pem"
        pem.write_text(simulator.public_key_pem, encoding="ascii")
        _explain(world, simulator, pem)
        living = asyncio.ensure_future(Life(world, seed=seed, speed=speed).run()) if speed else None
        try:
            while not stopped.is_set():
                if truth is not None:
                    write_truth(world, truth)
                await asyncio.wait([asyncio.ensure_future(stopped.wait())], timeout=TRUTH_SECONDS)
                if living is not None and living.done():
                    living.result()
        finally:
            if living is not None:
                living.cancel()
                await asyncio.gather(living, return_exceptions=True)
            await simulator.stop()
            if truth is not None:
                write_truth(world, truth)


def _explain(world: World, simulator: Simulator, pem: Path) -> None:
    messages = sum(len(channel.messages) for channel in world.channels.values())
    typer.echo(
        f"# {len(world.channels)} channels and groups, {messages} messages. Put this into the environment or .env:"
    )
    typer.echo(f"TELEGRAM_SERVER={simulator.address}")
    typer.echo(f"TELEGRAM_RSA_KEY={pem.absolute()}")
    typer.echo("TELEGRAM_API_ID=1\nTELEGRAM_API_HASH=simulated")
    for user in world.users.values():
        if user.phone is not None:
            typer.echo(f"# {user.first_name}, phone +{user.phone}")
            typer.echo(f"TELEGRAM_SESSION={simulator.session(user.id)}")
    names = [f"@{channel.username}" for channel in world.channels.values() if channel.username and not channel.group]
    typer.echo(f"# Channels: {' '.join(names[:10])}{' …' if len(names) > 10 else ''}")
    typer.echo("# Ctrl-C stops it.")
