"""The points of a plane that no other point beats."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spot:
    """A point of a plane: the lower its cost and the higher its score, the better."""

    cost: float
    score: float


def front_of(spots: Sequence[Spot]) -> tuple[int, ...]:
    """Return the places of the points that no other one beats (Pareto), the cheapest first."""
    order = sorted(range(len(spots)), key=lambda place: (spots[place].cost, -spots[place].score))
    front: list[int] = []
    best, cost = -math.inf, -math.inf
    for place in order:
        spot = spots[place]
        # Equal points are both on the front: neither beats the other.
        if spot.score > best or (spot.score == best and spot.cost == cost):
            front.append(place)
            best, cost = spot.score, spot.cost
    return tuple(front)
