"""Does a choice that labeled rows have to prove do harm, has it power, and what becomes of the study of the paper?"""
