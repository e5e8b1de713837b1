"""How many people saw a post and what they did: grows with its age, fast at first."""

from __future__ import annotations

from datetime import datetime
from math import exp

from telegram_simulator.model import Channel, Message
from telegram_simulator.voices import Voice
from telegram_simulator.world import World

HALF_SEEN = 6 * 3600.0  # seconds in which 63 per cent of the views come
ALL_SEEN = 12 * HALF_SEEN


def _luck(channel: Channel, message: Message, salt: int) -> float:
    """From 0 to 1, always the same for a post."""
    mixed = (message.id * 0x9E3779B1 ^ channel.id * 0x85EBCA6B ^ salt * 0xC2B2AE35) & 0xFFFFFFFF
    mixed = ((mixed ^ mixed >> 15) * 0x2C1B3C6D) & 0xFFFFFFFF
    return (mixed >> 16) / 0xFFFF


def grow_to(world: World, channel: Channel, message: Message, voice: Voice, now: datetime) -> None:
    """Raise a post's counters to what is right for its age; they never fall."""
    age = max(0.0, (now - message.date).total_seconds())
    if message.service is not None or (age > ALL_SEEN and message.counters.views):
        return
    luck, spread = _luck(channel, message, 1), _luck(channel, message, 2)
    views = int(channel.subscribers * voice.reach * (0.4 + 1.2 * luck) * (1.0 - exp(-age / HALF_SEEN)))
    liked = int(views * 0.02 * spread)
    counters = message.counters
    reactions = {}
    for emoji in voice.reactions:
        liked -= (part := liked - liked // 2)
        if (more := part - counters.reactions.get(emoji, 0)) > 0:
            reactions[emoji] = more
    seen, shared = views - counters.views, int(views * 0.008 * spread) - counters.forwards
    if seen > 0 or shared > 0 or reactions:
        world.grow(channel, message.id, views=max(0, seen), forwards=max(0, shared), reactions=reactions)
