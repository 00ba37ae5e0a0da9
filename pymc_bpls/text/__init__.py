"""Sentences, tables and numbers as people read them."""
