"""Alerts: what changed or went wrong, told once, to the page, to Slack, PagerDuty and webhooks."""
