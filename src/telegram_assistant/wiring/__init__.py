"""The composition root: settings become clients, clients become roles. Only the command imports from here."""
