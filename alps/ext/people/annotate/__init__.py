"""Labels of people: a page on this machine where they are given, and what is made of them."""
