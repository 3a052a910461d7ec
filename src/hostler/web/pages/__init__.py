"""The pages, one module per noun; ``routes`` says where each is."""
