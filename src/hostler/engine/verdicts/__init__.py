"""The rules of the kernels in plain Python, for explanations and answers from outside."""
