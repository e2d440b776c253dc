"""Policies as files that other programs can play without this library."""
