"""What is written: tables, sentences, figures and the flat table of results."""
