"""Batches: many requests in one order, answered within a day, at half the price."""
