"""Agreement of between people: on gold, and on the labels of label folders."""
