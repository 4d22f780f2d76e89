"""For instructors: the site, the slides, the plan of each session, grading, and a class on one machine."""
