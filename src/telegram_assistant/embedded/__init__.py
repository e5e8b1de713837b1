"""PostgreSQL and Valkey from their wheels, started and stopped by us: the engines of one machine."""
