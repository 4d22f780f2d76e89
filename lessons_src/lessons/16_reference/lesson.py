# %% [markdown] tags=["reference"]
# # 16 · Reference: to look things up
#
# Nothing to learn here, and no exercises: four tables, for when you look for a term, a fault, a test, or the place that settles a claim.
#
# - [Faults and what shows them](#Faults-and-what-shows-them)
# - [Ten tests for a LayerNorm](#Ten-tests-for-a-LayerNorm)
# - [Glossary](#Glossary)
# - [Index of misconceptions](#Index-of-misconceptions)
#
# A link opens the notebook; JupyterLab jumps to the section at the second click.
#
# ## Faults and what shows them
#
# Each fault that this course has treated, the place where it did, and the input or the question that shows it.
#
# | the fault | where | what shows it |
# |---|---|---|
# | eps that is 0 in float16 | [3.7](03_epsilon.ipynb#3.7-Clinic:-it-was-fine-in-float32) | a row of zeros in half precision |
# | names that no checkpoint knows | [4.4](04_affine_and_module.ipynb#4.4-The-module) | `load_state_dict` |
# | a checkpoint whose gains mean something else to the layer that loads it | [4.5](04_affine_and_module.ipynb#4.5-Clinic:-every-key-matched,-and-the-net-cannot-read) | two gains that are not 0, and a row that is not constant |
# | a softmax over a row that is masked throughout | [5.5](05_softmax.ipynb#5.5-Clinic:-the-empty-sentence) | an empty sample in the batch, and the gradients |
# | BatchNorm told the wrong number of channels | [6.7](06_batchnorm.ipynb#6.7-Clinic:-the-error-that-went-away) | the length of `running_mean` |
# | gain outside the means, in a hand-written backward pass | [7.7](07_backward.ipynb#7.7-A-test-that-cannot-fail) | several rows, gains that differ clearly, a random dy and a scale other than 1 |
# | a norm over one feature | [8.7](08_geometry.ipynb#8.7-Clinic:-features-that-never-arrive) | two inputs, one output |
# | a sigmoid before the cross-entropy | [9.9](09_cnn.ipynb#9.9-Three-sick-runs) | a loss that does not fall below 1.46 for ten classes |
# | `eval()` forgotten | [9.9](09_cnn.ipynb#9.9-Three-sick-runs) | one image, alone and in company |
# | `normalized_shape` with the time in it | [10.1](10_rnn.ipynb#10.1-Hunt-the-leak) | change a late step, look at the early outputs |
# | the norm outside the recurrence | [10.2](10_rnn.ipynb#10.2-The-norm-and-the-loop) | the loop's last state, beside that of a plain loop |
# | two norms in a row | [11, Deeper](11_transformer.ipynb#Clinic:-two-norms-in-a-row) | is the input of a norm normalized already? |
# | Post-LN without warm-up, with 12 layers at a rate of 0.003 | [11, Deeper](11_transformer.ipynb#The-rate,-and-warm-up) | the first hundred steps |
# | the final norm is missing | [11.8](11_transformer.ipynb#11.8-A-stream-that-grows) | the size of the stream before the output layer |
# | `normalized_shape` with the batch in it | [12.7](12_family.ipynb#12.7-Clinic:-a-norm-for-the-whole-tensor) | change one sample, look at the others |
# | a layer made anew at each call | [12.7](12_family.ipynb#12.7-Clinic:-a-norm-for-the-whole-tensor) | list the parameters |
# | padding counted in the statistics of a kernel | [13, Deeper](13_speed.ipynb#Clinic:-every-test-passed) | a width that is no power of two, rows away from 0 |
# | a softmax over an axis with one entry | [5, Deeper](05_softmax.ipynb#Along-which-axis) | do the weights sum to 1 along the axis that you mean? |
# | variance divided by D − 1 | [2.3](02_statistics.ipynb#2.3-Biased-or-not) | few features |
# | eps outside the root | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) | a row with standard deviation 0.001 |
# | one-pass variance | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) | a row far from 0, in float32 |
# | wrong axis on a square input | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows), [4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) | sizes that are all different |
# | gain that is not registered, or too late | [4.4](04_affine_and_module.ipynb#4.4-The-module) | list the parameters |
# | statistics cut off from the gradient | [7.5](07_backward.ipynb#7.5-What-the-copy-has-lost) | compare with autograd, for a random dy |
# | `reshape` where an axis must move | [14.1](14_clinic.ipynb#14.1-Every-size-fits) | a footprint |
# | padding that becomes the bias | [14.2](14_clinic.ipynb#14.2-Clean-until-it-has-learned) | random gains and biases |
# | gains drawn like weights | [14, Deeper](14_clinic.ipynb#A-net-that-whispers) | what comes out of each layer before training |
# | a gain or a bias that never learns | [14.3](14_clinic.ipynb#14.3-Ten-tests,-in-the-order-to-run-them) | the gradients of gain and bias |
# | an answer that changes at the next call | [14.3](14_clinic.ipynb#14.3-Ten-tests,-in-the-order-to-run-them) | keep an answer and a clone of it, call again |
# | statistics over all tokens, in a net that writes | [14.5](14_clinic.ipynb#14.5-Is-the-new-norm-better?) | change the last token, look at the early outputs |
# | the stream overwritten by its normalized self | [14, Deeper](14_clinic.ipynb#Pre-LN-by-name) | silent branches |
# | a mean over the wrong axis, in a net that was ported | [15.2](15_in_the_wild.ipynb#15.2-Over-which-axis) | one changed number |

# %% [markdown]
# ## Ten tests for a LayerNorm
#
# In the order of [section 14.3](14_clinic.ipynb#14.3-Ten-tests,-in-the-order-to-run-them).
#
# | | test | the input that exposes it | if this is the first to fail |
# |---|---|---|---|
# | 1 | names | none: list what a checkpoint holds, its values and what is trained | other names, a buffer too many, gains not registered or drawn |
# | 2 | rows | 5 features, standard deviations 1 to 0.001, random gain and bias, float64 | the formula: D − 1, eps, mean, bias before gain, type |
# | 3 | axes | three axes of different size, the last one wide | axis 1, time and features, a part of the features |
# | 4 | again | random gain and bias; the same rows twice, others in between, `eval()`, and the first answer once more | it writes into its input or into its answers, or keeps something |
# | 5 | gradient | random gain, random gradient from above; x, gain and bias | a path that is cut; a wrong backward pass |
# | 6 | offset | float32 rows around 10,000 | one-pass variance |
# | 7 | half | float16: entries of size 600, and zeros with eps = 1e-8; bfloat16 rows around 60 | computed in half precision |
# | 8 | constant | a constant row, and its gradient | a root at 0 |
# | 9 | options | two axes and eps = 0.1; small rows, no gain and bias, and eps left out | arguments that are not used, another default of eps |
# | 10 | layout | a transposed tensor | `view` |

# %% [markdown]
# ## Glossary
#
# Each term with one sentence, and the place that introduces it.
#
# | term | what it is | section |
# |---|---|---|
# | AdaLN | a norm whose gain and bias are functions of a condition | [12.6](12_family.ipynb#12.6-A-map-of-2026) |
# | attention | an average of the values of the tokens that one may see (itself among them), weighted by a softmax of q · k | [11.4](11_transformer.ipynb#11.4-Build-a-GPT,-and-train-it) |
# | autocast | PyTorch's choice of a dtype for each operation | [3, Deeper](03_epsilon.ipynb#Autocast) |
# | autograd.Function | a class with a forward and a backward pass written by hand | [7.8](07_backward.ipynb#7.8-Your-line-in-PyTorch) |
# | BatchNorm | a norm with one mean and variance for each feature, in training taken over the batch and all positions | [6.2](06_batchnorm.ipynb#6.2-The-other-axis) |
# | bfloat16 | a number in 16 bits with the range of float32 and two digits | [3.5](03_epsilon.ipynb#3.5-Half-precision) |
# | bias | the learned number β added to each normalized feature | [4.1](04_affine_and_module.ipynb#4.1-One-gain-and-one-bias-for-each-feature) |
# | biased (variance) | the variance divided by D, which LayerNorm uses; the unbiased one is divided by D − 1 | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | block | what a deep net is a stack of; in a Transformer attention and an MLP, each on a branch beside a skip | [11.1](11_transformer.ipynb#11.1-Play) |
# | branch | f in x + f(x): what is computed beside the skip, and then added | [11.1](11_transformer.ipynb#11.1-Play) |
# | buffers | tensors of a layer that are saved and moved with it, and not trained | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | cache | small, fast memory close to the processor, for what was used last | [13.1](13_speed.ipynb#13.1-A-memory-and-a-cache) |
# | cache line | the piece of memory, 64 bytes on most processors, that is fetched and written back as one | [13, Deeper](13_speed.ipynb#Stores-past-the-caches) |
# | causal | seeing no later tokens: an output depends on its own token and on those before it | [11.4](11_transformer.ipynb#11.4-Build-a-GPT,-and-train-it) |
# | cell | one step of a recurrent net, as a module; in an LSTM also its memory, the second state | [10.5](10_rnn.ipynb#10.5-A-GRU-cell), [10, Deeper](10_rnn.ipynb#An-LSTM-cell) |
# | channels | the features of a pixel or of a step of a sequence | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | checkpoint | what is saved of a model: its `state_dict`, names and tensors | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | contrast | the factor by which the standardized pixels of an image are multiplied | [9.8](09_cnn.ipynb#9.8-A-dim-picture) |
# | control | in a comparison, the run without the thing that is tried, and otherwise alike | [9.1](09_cnn.ipynb#9.1-A-race-with-four-knobs) |
# | correction | PyTorch's argument for what is taken off D: 0 for the biased variance | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | DeepNorm | Post-LN with a factor α on the stream, and smaller weights in the branches at the start | [12, Deeper](12_family.ipynb#Where-the-norm-goes) |
# | dilation | the distance between the taps of a convolution's kernel, in pixels | [9.5](09_cnn.ipynb#9.5-How-large-is-what-comes-out?) |
# | dy | the gradient that arrives at a layer's output, from above | [7.1](07_backward.ipynb#7.1-Three-paths-back) |
# | DyT | a tanh with one learned factor, then gain and bias: in the place of a norm, and without statistics | [12.4](12_family.ipynb#12.4-No-statistics-at-all) |
# | effective learning rate | the rate at which the direction of weights before a norm learns: η/‖W‖² under plain SGD; under Adam it goes with η/‖W‖ | [8.6](08_geometry.ipynb#8.6-The-length-of-weights-before-a-norm) |
# | eigenvalues | the factors by which a symmetric matrix stretches directions at right angles to one another | [8, Deeper](08_geometry.ipynb#The-spectrum-of-the-Jacobian) |
# | embedding | a learned row of numbers for each token, looked up in a table | [11.4](11_transformer.ipynb#11.4-Build-a-GPT,-and-train-it) |
# | epsilon, eps | the small number added to the variance under the root | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | float16, half precision | a number in 16 bits with three digits and a range from 6·10⁻⁸ to 65,504 | [3.5](03_epsilon.ipynb#3.5-Half-precision) |
# | fold | to put a layer's factors into the weights of a neighboring layer, so that the two compute the same | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | footprint | the places of the input on which one output depends | [14.1](14_clinic.ipynb#14.1-Every-size-fits) |
# | fused | several operations in one run over memory | [13.1](13_speed.ipynb#13.1-A-memory-and-a-cache) |
# | gain | the learned factor γ of each normalized feature, `weight` in PyTorch | [4.1](04_affine_and_module.ipynb#4.1-One-gain-and-one-bias-for-each-feature) |
# | gate | a number between 0 and 1, made by a sigmoid, that multiplies something | [10.5](10_rnn.ipynb#10.5-A-GRU-cell) |
# | gradcheck | PyTorch's comparison of a gradient with small differences of the output | [7.8](07_backward.ipynb#7.8-Your-line-in-PyTorch) |
# | gradgradcheck | the same as gradcheck, for the gradient of the gradient | [7.8](07_backward.ipynb#7.8-Your-line-in-PyTorch) |
# | gradient | the derivatives of the loss, carried backwards from layer to layer | [1.4](01_why_normalize.ipynb#1.4-The-gradient-takes-the-same-road-back) |
# | GroupNorm | a norm with statistics for each group of channels of a sample | [6.6](06_batchnorm.ipynb#6.6-Four-norms,-one-formula) |
# | heads | attentions side by side, each with its own share of the features | [11.4](11_transformer.ipynb#11.4-Build-a-GPT,-and-train-it) |
# | hook | a function that PyTorch runs each time a layer is called | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | idempotent | doing nothing the second time | [8.2](08_geometry.ipynb#8.2-Two-moves-in-whole-numbers) |
# | InstanceNorm | a norm with statistics for each channel of each sample | [6.6](06_batchnorm.ipynb#6.6-Four-norms,-one-formula) |
# | internal covariate shift | the moving distribution of a layer's inputs during training; named as BatchNorm's reason, and disputed since | [1.7](01_why_normalize.ipynb#1.7-The-story-that-everybody-tells) |
# | Jacobian | the matrix of all derivatives of a layer's outputs with respect to its inputs | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | Kaiming initialization | weights with standard deviation √(2/D), which keep the size of a signal, on average, through wide ReLU layers | [1.3](01_why_normalize.ipynb#1.3-Why-1.4?) |
# | LayerNorm, Layer Normalization | a norm with a mean and a variance for each row, then gain and bias; the same in training and evaluation | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | leak | an output that depends on what it must not see: a later token, or a different sample | [10.1](10_rnn.ipynb#10.1-Hunt-the-leak) |
# | logits | what goes into a softmax: scores of any sign | [9.9](09_cnn.ipynb#9.9-Three-sick-runs) |
# | mean | the sum of a row's numbers, divided by their number | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | momentum | in PyTorch's BatchNorm: the weight of the newest batch in the running statistics | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | nan | not a number: the result of 0/0, for instance, which spreads to all that touches it | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | nats | the unit of a cross-entropy with natural logarithms | [11.4](11_transformer.ipynb#11.4-Build-a-GPT,-and-train-it) |
# | non-temporal store | a store that goes past the caches, so that nothing is fetched before | [13, Deeper](13_speed.ipynb#Stores-past-the-caches) |
# | norm, normalization layer | a layer that gives its input a fixed mean and size, or a fixed size only, with numbers that it computes from the input | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | normalize | subtract the mean, divide by the root of the variance (plus eps) | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | normalized_shape | the sizes of the trailing axes that are normalized together | [4.3](04_affine_and_module.ipynb#4.3-Any-trailing-shape) |
# | null direction | a direction in which a small step changes no output | [5.4](05_softmax.ipynb#5.4-The-same-numbers-in-the-derivatives) |
# | Numba | a compiler for Python loops over numbers | [13.3](13_speed.ipynb#13.3-The-digits-of-a-sum) |
# | one pass | the variance as E[x²] − E[x]², from two sums of one run over the row, which loses its digits far from 0 | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | ONNX | a file format for trained models: a list of operations, and constants | [15.1](15_in_the_wild.ipynb#15.1-A-model-is-a-list-of-operations) |
# | orthogonal projection | a matrix with PP = P and Pᵀ = P: it drops vectors straight down onto a flat set | [8.2](08_geometry.ipynb#8.2-Two-moves-in-whole-numbers) |
# | page fault | a stop in which the system finds and clears fresh memory | [13, Deeper](13_speed.ipynb#Four-traps-of-a-timing) |
# | Peri-LN | norms at both ends of each branch | [12, Deeper](12_family.ipynb#Where-the-norm-goes) |
# | Post-LN | the norm after the sum, on the stream itself: LN(x + f(x)) | [11.1](11_transformer.ipynb#11.1-Play) |
# | Pre-LN | the norm inside the branch, before its function: x + f(LN(x)) | [11.1](11_transformer.ipynb#11.1-Play) |
# | QK-norm | a norm on queries and keys, inside attention | [12.5](12_family.ipynb#12.5-Norms-inside-attention) |
# | rank | the number of singular values that are not 0 | [5, Deeper](05_softmax.ipynb#How-many-directions) |
# | re-centering | adding one vector to all rows of a weight matrix (or to all data) | [8.5](08_geometry.ipynb#8.5-What-four-norms-do-not-see) |
# | reduce | to take the mean, sum or variance over an axis, which then has size 1 or is gone | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows) |
# | residual connection | a way around a layer, a skip: its input is added to its output | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | residual stream | what runs from block to block; in a Pre-LN net it only gets added to | [11.1](11_transformer.ipynb#11.1-Play) |
# | rms | root mean square: the root of the mean of the squares | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | RMSNorm | a norm that divides by the rms and subtracts no mean | [8.4](08_geometry.ipynb#8.4-RMSNorm:-the-sphere-alone) |
# | row | the D numbers of one sample or token, which are normalized together | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | rstd | one over the root of variance plus eps | [7.2](07_backward.ipynb#7.2-Forward-with-four-numbers) |
# | running statistics | averages of BatchNorm's means and variances over the batches, used in evaluation | [6.3](06_batchnorm.ipynb#6.3-What-evaluation-uses-instead) |
# | ScaleNorm | RMSNorm with one gain for all features | [12, Deeper](12_family.ipynb#Where-the-norm-goes) |
# | seed | the number that a random generator starts from; results are reported over several | [1.6](01_why_normalize.ipynb#1.6-What-it-is-worth-in-training) |
# | shares | numbers from 0 to 1 that sum to 1 | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | signal | the numbers that a net hands from layer to layer for one input | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | singular values | the factors by which a matrix stretches directions at right angles to one another | [5, Deeper](05_softmax.ipynb#How-many-directions) |
# | skeleton | what is left of a block when its branches are silent | [14, Deeper](14_clinic.ipynb#Pre-LN-by-name) |
# | skewness | the mean of the normalized values cubed: 0 for symmetric shapes | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | skip | the way around a function: x + f(x) | [11.1](11_transformer.ipynb#11.1-Play) |
# | softmax | exponentials of a row divided by their sum: shares between 0 and 1 | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | spectral norm | the largest factor by which a matrix stretches a vector | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | spectrum | all eigenvalues of a matrix, with how often each occurs | [8, Deeper](08_geometry.ipynb#The-spectrum-of-the-Jacobian) |
# | sphere | the points at one distance from the origin; √D for a normalized row at eps = 0 | [8.2](08_geometry.ipynb#8.2-Two-moves-in-whole-numbers) |
# | standard deviation | σ, the root of the variance | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | standardize | subtract the mean and divide by the standard deviation | [1.5](01_why_normalize.ipynb#1.5-Standardize) |
# | state | what a recurrent net hands from one step to the next | [10.2](10_rnn.ipynb#10.2-The-norm-and-the-loop) |
# | state_dict | the dictionary from names to tensors that a module saves and loads | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | stride | the step by which a convolution's kernel moves on | [9.5](09_cnn.ipynb#9.5-How-large-is-what-comes-out?) |
# | summed input | what a recurrent unit adds up from input and state, before its nonlinearity | [10.2](10_rnn.ipynb#10.2-The-norm-and-the-loop) |
# | SyncBatchNorm | BatchNorm that exchanges its statistics between devices | [6, Deeper](06_batchnorm.ipynb#Several-devices) |
# | temperature | what the scores are divided by before a softmax | [5.3](05_softmax.ipynb#5.3-What-each-of-them-cannot-see) |
# | token | one position of a sequence (a word, a letter, a patch of an image), or the row of numbers that stands for it | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | validation digits | training digits on which settings are chosen; nothing is trained on them, and the test digits are read only afterwards | [9.1](09_cnn.ipynb#9.1-A-race-with-four-knobs) |
# | variance | the mean squared distance from the mean; its root is the standard deviation σ | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | warm-up | a learning rate that rises from 0 over the first steps | [11, Deeper](11_transformer.ipynb#The-rate,-and-warm-up) |
# | weight decay | pulling parameters towards 0 at every step; before a norm it keeps the pace of learning up, and does not help by itself | [4, Deeper](04_affine_and_module.ipynb#Weight-decay-and-the-gain), [8.6](08_geometry.ipynb#8.6-The-length-of-weights-before-a-norm) |
# | weight scale | the factor on the standard deviation 1/√D of freshly drawn weights | [1.1](01_why_normalize.ipynb#1.1-Fifty-layers) |
# | WeightNorm | dividing each weight vector by its length, without a look at the data; a learned factor may set a new one | [8.5](08_geometry.ipynb#8.5-What-four-norms-do-not-see) |
# | Welford | a way to update mean and variance number by number, which never gives a negative variance | [3, Deeper](03_epsilon.ipynb#Welford-or-two-passes?) |
# | word | one number, as the unit in which memory traffic is counted | [13.1](13_speed.ipynb#13.1-A-memory-and-a-cache) |
# | x_hat | the normalized row, before gain and bias | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | Xavier | initial weights with variance 2/(inputs + outputs) | [11.4](11_transformer.ipynb#11.4-Build-a-GPT,-and-train-it) |

# %% [markdown]
# ## Index of misconceptions
#
# What is often said, what holds, and the place that settles it.
#
# | often said | what holds | section |
# |---|---|---|
# | LayerNorm averages across the batch | Statistics across the batch are BatchNorm's | [6.2](06_batchnorm.ipynb#6.2-The-other-axis) |
# | the normalized axis is axis 1, in every layout | LayerNorm normalizes the last axes, and a square input hides a wrong one | [4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | nn.LayerNorm(C) works on images (B, C, H, W) | nn.LayerNorm(C) takes the last axis, on images the width | [4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | per-pixel LayerNorm, LayerNorm([C, H, W]) and GroupNorm(1, C) are one thing | Per pixel, [C, H, W] and GroupNorm(1, C) are three different things | [4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | GroupNorm(1, C) is LayerNorm | On (B, C) it is; on images its statistics are LayerNorm([C, H, W])'s, and its gains one a channel | [4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | x.shape[2:] is everything but the batch | On (B, C, H, W), x.shape[2:] gives Instance Normalization | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | in a sequence all time steps are normalized together | Normalizing over time and features lets the future leak into the past | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | the statistics are taken per training example | nn.LayerNorm(C) takes them per position; LayerNorm([C, H, W]) on images takes them per example | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | normalized_shape is the shape of x | normalized_shape must not hold the batch axis | [9.7](09_cnn.ipynb#9.7-A-short-way-to-write-the-shape) |
# | the argument is the number of an axis, as in softmax | normalized_shape is a size, not an axis number | [5, Deeper](05_softmax.ipynb#Along-which-axis) |
# | LayerNorm([C, H, W]) drops into any convolutional net | LayerNorm([C, H, W]) ties a net to one image size | [4, Deeper](04_affine_and_module.ipynb#Images:-three-layers,-one-name) |
# | the output size of a convolution is a plain quotient | Plain division or rounding gives wrong convolution sizes | [9.5](09_cnn.ipynb#9.5-How-large-is-what-comes-out?) |
# | equal sizes make a good example | Equal sizes in an example hide a wrong axis | [2.2](02_statistics.ipynb#2.2-A-batch-of-rows) |
# | an assert that compares normalized_shape with a slice of x.shape is enough | normalized_shape must be made a tuple before it is compared, and a mismatch must raise | [4.3](04_affine_and_module.ipynb#4.3-Any-trailing-shape) |
# | BatchNorm cannot be used on sequences | BatchNorm1d wants (B, C, T): on (B, T, C) it fails, or is silently wrong if T = C | [6.7](06_batchnorm.ipynb#6.7-Clinic:-the-error-that-went-away) |
# | any variance will do | torch.var divides by D - 1 unless told otherwise | [2.3](02_statistics.ipynb#2.3-Biased-or-not) |
# | divide by σ + ε | eps added to the deviation changes small rows | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) |
# | ε is a detail | eps must travel with the weights | [3.4](03_epsilon.ipynb#3.4-Which-epsilon-travels-with-which-weights) |
# | the output has variance 1 | The output variance is v/(v+eps), below 1 | [3.3](03_epsilon.ipynb#3.3-What-epsilon-does-to-values,-and-to-gradients) |
# | a small enough ε makes the values as large as one likes | On paper no value is larger than the root of D - 1, whatever eps is; rounding can exceed it | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | no ε is needed | Without eps a constant row gives nan, or noise where its mean is rounded | [3.1](03_epsilon.ipynb#3.1-Rows-that-break-the-formula) |
# | a norm over one or two features normalizes them | LayerNorm over one feature gives zero before the bias, over two a sign where ε is negligible | [8.3](08_geometry.ipynb#8.3-Two-features,-and-one) |
# | LayerNorm makes activations Gaussian, or puts them between −1 and 1 | Normalizing makes nothing Gaussian and confines nothing to [-1, 1] | [2.1](02_statistics.ipynb#2.1-Two-numbers-for-a-row) |
# | after LayerNorm every row sums to 0 | Row sums are 0 before gain and bias, in general not after | [5.1](05_softmax.ipynb#5.1-One-axis,-two-promises) |
# | E[x²] − E[x]² is the same formula | E[x^2] - E[x]^2 is not the same formula in floating point | [3.6](03_epsilon.ipynb#3.6-A-variance-that-survives-an-offset) |
# | an ε of 1e-8 is safe in half precision | An eps of 1e-8 is zero in float16 | [3.7](03_epsilon.ipynb#3.7-Clinic:-it-was-fine-in-float32) |
# | equal printed digits show that two layers agree | Equal printed digits do not decide whether two layers agree | [5, Deeper](05_softmax.ipynb#The-digit-that-depends-on-rounding) |
# | a right shape on zeros is a test | A shape test on zeros passes layers with wrong values | [3.2](03_epsilon.ipynb#3.2-Where-epsilon-goes) |
# | gain and bias have shape (C,) | Gains have the normalized shape, not always (C,) | [4.3](04_affine_and_module.ipynb#4.3-Any-trailing-shape) |
# | the constructor takes the initial gain and bias | The constructor takes no initial values | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | without gain and bias one only skips the multiplication | elementwise_affine=False registers no parameters | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | the names of the parameters do not matter | Parameter names decide whether a checkpoint loads | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | weight decay on the gain is harmless | Weight decay pulls gains to 0: leaving them out is a convention | [4, Deeper](04_affine_and_module.ipynb#Weight-decay-and-the-gain) |
# | bias=False makes it an RMSNorm | bias=False is not RMSNorm | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | gain and bias are essential for the capacity | Directly before a Linear with a bias they add no function | [4.2](04_affine_and_module.ipynb#4.2-What-gain-and-bias-cannot-do) |
# | a bias in front of LayerNorm is redundant | A bias before LayerNorm is not redundant, before BatchNorm it is | [6, Deeper](06_batchnorm.ipynb#What-the-layer-before-it-feels) |
# | LayerNorm folds into the layer before it, as BatchNorm does | Only its mean can: the division differs from row to row | [6, Deeper](06_batchnorm.ipynb#Folding-a-BatchNorm-away), [4, Deeper](04_affine_and_module.ipynb#Folding-further) |
# | LayerNorm changes in eval() | LayerNorm has no running statistics | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | BatchNorm fails when there are few batches | Small batches widen BatchNorm's gap at any number of batches, few batches only until its running statistics settle | [6.5](06_batchnorm.ipynb#6.5-The-gap-between-training-and-evaluation) |
# | with several devices BatchNorm sees the whole batch | Averaging variances of devices is not the variance of the whole | [6, Deeper](06_batchnorm.ipynb#Several-devices) |
# | in the backward pass mean and deviation are constants | Mean and deviation are not constants in the backward pass | [7.5](07_backward.ipynb#7.5-What-the-copy-has-lost) |
# | LayerNorm kills the gradient | A sum of outputs with equal gains has no gradient: test with gains that differ clearly and a random dy | [7.7](07_backward.ipynb#7.7-A-test-that-cannot-fail) |
# | a LayerNorm after an RNN normalizes the recurrence | A norm after the loop changes no state in the loop | [10.2](10_rnn.ipynb#10.2-The-norm-and-the-loop) |
# | norm_first needs nothing else | A Pre-LN stack ends in the bare stream: the final norm is yours to add | [11.8](11_transformer.ipynb#11.8-A-stream-that-grows) |
# | overriding __call__, or calling forward, is the same as calling the module | Define forward and call the module: hooks hang on the call | [4.4](04_affine_and_module.ipynb#4.4-The-module) |
# | a sigmoid suits a ten-class cross-entropy | Sigmoid before cross-entropy keeps the loss above a floor | [9.9](09_cnn.ipynb#9.9-Three-sick-runs) |
# | types of input and parameters mix freely | On a CPU half-precision input may meet float32 parameters, and nothing else mixes | [4, Deeper](04_affine_and_module.ipynb#Types-that-may-meet) |
# | with LayerNorm the rest of the batch does not matter, bit for bit | In mathematics; bit for bit it depends on library and machine, and the matrix product beside the norm often differs | [6, Deeper](06_batchnorm.ipynb#Bit-for-bit) |
# | a band in a figure speaks for itself | A few runs show large differences only: say how many, paired or not, and what varies | [9.4](09_cnn.ipynb#9.4-Let-the-other-side-win) |
# | one seed at the top makes every later cell repeatable | One seed at the top does not fix later draws | [2.4](02_statistics.ipynb#2.4-Which-axes,-and-how-many-means?) |
# | activations shoot up because of sharp minima | Activations shoot up with the weight scale, already before training | [1.3](01_why_normalize.ipynb#1.3-Why-1.4?) |
# | PyTorch's LayerNorm is out of reach, deep in generated code | PyTorch ships a readable reference of its LayerNorm | [4, Deeper](04_affine_and_module.ipynb#The-source-on-your-disk) |
# | a layer that is called LayerNorm takes its mean over the features | The name says nothing of the axis: ask with one changed number | [15.2](15_in_the_wild.ipynb#15.2-Over-which-axis) |
# | a port whose labels agree is right | Labels of clear cases agree under a wrong eps as well: compare scores | [15.4](15_in_the_wild.ipynb#15.4-What-each-convention-is-worth) |
