"""What watches a running system: dashboards, alerts, and the code that makes them."""
