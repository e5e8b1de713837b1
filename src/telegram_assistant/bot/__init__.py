"""The assistant's face in Telegram: commands, questions, search in any chat, digests and alerts."""
