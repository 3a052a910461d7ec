"""Answers to what-ifs and explanations: by threads, or by a process that follows the log too."""
