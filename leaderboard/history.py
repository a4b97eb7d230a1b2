"""Which submissions are one system over time: those that a maintainer joined, in the review of the
later one.

A name and an organisation are free for all to take, and so is a folder; a review is not.
"""

from collections.abc import Mapping


def histories(links: Mapping[str, str | None]) -> dict[str, frozenset[str]]:
    """Return the submissions of the same history by the slug of each.

    Args:
        links: By slug, the earlier submission that its review says it continues.
    """
    joined = {slug: frozenset({slug}) for slug in links}
    for slug, earlier in links.items():
        if earlier in joined:
            together = joined[slug] | joined[earlier]
            joined |= dict.fromkeys(together, together)
    return joined
