"""The demo: three questions about one real data set. Can the pool help, are the scores right, does a run help?"""
