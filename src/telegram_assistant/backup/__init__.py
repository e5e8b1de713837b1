"""One file with the database, the media and the keys, and the way back."""
