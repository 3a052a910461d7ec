"""How answers are written: tables, words for amounts and reasons, explanations, and the standard streams themselves."""
