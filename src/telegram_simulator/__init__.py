"""A Telegram to develop against: speaks MTProto to an unpatched Telethon, and knows the truth.

It knows nothing of the assistant. `world` holds what exists, `generate` makes worlds from a seed,
`life` lets them go on posting, `server` and what it stands on speak the protocol, `faults` break it.
"""
