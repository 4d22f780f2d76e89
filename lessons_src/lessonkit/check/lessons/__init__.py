"""The checks of each lesson, in a module that is called as the lesson."""
