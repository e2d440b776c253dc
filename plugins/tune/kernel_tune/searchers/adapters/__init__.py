"""Searchers that ask another library, one file each; what they share is in `library.py`.

Each library is imported when its searcher is made; without it there is an error that says what to install.
"""
