"""Searchers that ask another library, one file each. What they share is in `library.py`.

Each library is imported when its searcher is made. If it is missing, an error says what to install.
"""
