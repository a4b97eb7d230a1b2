"""Engines that carry out a run in many processes: it is divided into shards, and merged."""

from alps.extension import Extension

EXTENSION = Extension("fleet", commands={"merge": "alps.ext.fleet.commands:merge"})
