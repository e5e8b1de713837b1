"""What every stage and task shares: supervision here, the streams beside it."""
