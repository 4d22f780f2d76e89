# %% [markdown]
# # NN · TITLE
#
# Two rows of numbers, one a hundred times as large as the other. Do their means tell them apart?

# %%
import torch

from lessonkit import check, show  # sets torch to one thread (LESSON_THREADS)

row = torch.tensor([-3.0, -1.0, 1.0, 3.0])  # (D,) = (4,)
show("means", [row.mean(), (100 * row).mean()])

# %% [markdown]
# They do not: what is above 0 and what is below cancels. A measure of size has to lose the sign first.
#
# *About 6 min.* **You'll be able to**
# - say how large the entries of a row are, whatever their signs.
#
# **You need** [lesson 2](02_statistics.ipynb): the mean of the last axis.

# %% [markdown]
# ## NN.1 The mean square
#
# The mean square of a row is the mean of the squares of its entries.
#
# **Predict NN.1:** what is the mean square of the row −3, −1, 1, 3?
# - [ ] 0 :: That is the square of the mean. The squares are taken first, and they are not negative.
# - [x] 5 :: The squares 9, 1, 1 and 9 sum to 20, and there are four of them.
# - [ ] 20 :: That is the sum of the squares. Their mean is a fourth of it.

# %%
show("mean square", (row * row).mean())

# %% [markdown]
# Now for every row of a tensor.


# %% tags=["exercise"] id="ex-NN-1"
# Exercise NN.1 · ●○○○○ · 2 min
def mean_square_of_new_lesson(x):
    """Return the mean square of each row.

    For [[-3.0, -1.0, 1.0, 3.0]] it is [[5.0]].
    x: (..., D) float tensor. Returns (..., 1), in x's dtype; gradients flow through it.
    """
    ### BEGIN SOLUTION
    squares = x * x  # (..., D)
    return squares.mean(-1, keepdim=True)  # (..., 1)
    ### END SOLUTION


# %% tags=["check"]
check.mean_square_of_new_lesson(mean_square_of_new_lesson)

# %% [markdown]
# <details><summary>Hint</summary>
#
# Square first, then take the mean of axis −1.
#
# </details>

# %% [markdown]
# ## Take-away
#
# - The mean square of a row says how large its entries are, whatever their signs.
#
# ## Deeper (optional, 1 min)
#
# ### Its root
#
# The root of the mean square has the unit of the entries.
#
# ## On your own
#
# 1. Which row of four numbers has the mean square 0?
#
# ## Further reading
#
# - Zhang & Sennrich (2019), *Root Mean Square Layer Normalization*, eq. 4.
