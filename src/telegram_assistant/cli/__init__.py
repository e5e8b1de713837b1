"""The command `tga`: main.py names what it can do, and a file per noun does it."""
