"""Engines that carry out a run in many processes: it is divided into shards, and merged."""
