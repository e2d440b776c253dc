"""Sessions of many processes from a program's side: start one, or join one on this machine or on another."""
