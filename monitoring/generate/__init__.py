"""Makes the dashboards, the alert rules and the page about metrics. `scripts/metrics` writes them; tests compare."""
