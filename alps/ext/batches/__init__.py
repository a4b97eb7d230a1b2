"""Batches: many requests in one order, answered within a day, at half the price."""

from alps.extension import Extension

EXTENSION = Extension("batches", commands={})
