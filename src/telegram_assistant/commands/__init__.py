"""What `tga` can do, a file per noun."""
