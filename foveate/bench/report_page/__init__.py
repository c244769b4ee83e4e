"""From the records of many runs to a page: tables, intervals and plots. Nothing is measured here."""
