"""Agreement of people with each other: on gold, and on the labels of label folders."""
