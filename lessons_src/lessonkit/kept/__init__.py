"""What is kept of a learner's answers: a file a lesson in work/mine, which imports by itself and passes its checks.

allowed     what an answer may consist of
files       the form of a file, and how it is read, run and written
saving      from a right answer in a kernel to its place in a file

lessonkit.mine hands these answers to later lessons; lessonkit.attempts keeps what was tried.
"""
