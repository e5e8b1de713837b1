"""Python begins with this in a hurried run: only the clock runs faster there, and the machine is as slow as ever.

So what a role may take to report, or an engine to answer, is stretched by as much.
"""

import os

from telegram_assistant import health

TIMES = float(os.environ["FAKETIME"].rpartition("x")[2])
health.PROBE_SECONDS *= TIMES
health.REPORT_SECONDS *= TIMES
