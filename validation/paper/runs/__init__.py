"""What is run: the tables, the methods of the package, the paper's code emulated, and one repetition of all."""
