"""The routes by noun, and what several of them share."""
