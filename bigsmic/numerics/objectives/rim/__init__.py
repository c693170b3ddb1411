"""Regularized information maximization: clusters by an unsupervised classifier.

A classifier that gives row i the logits ``z_i`` has ``p(k|x_i) = softmax_k(z_i)``. Its parameters maximise [1]_

    F = tau (-KL(p^ || D) - mean_i H(p(.|x_i))) + sum over labelled rows of log p(y_i|x_i) - R

where ``p^`` is the mean posterior and D a prior over categories; without one, ``-KL`` is the entropy ``H(p^)``, and
the first bracket is the mutual information of rows and labels. The terms favour certain labels, use of all categories,
and, by R, simple boundaries. Categories whose information does not outweigh their penalty die out, and those that
remain alive are the clusters.

`logits` has the objective as a function of logits from any model. In `linear`, `adam` and `start` they are linear in
the rows,

    z_i = W' x_i + b,     R = reg |W|^2,     dF/dW = sum_i x_i (dF/dz_i)' - 2 reg W,     dF/db = sum_i dF/dz_i

The gradient at every row contains the mean posterior, so that an exact gradient takes two passes: sums of `information`
over blocks, then of `linear_gradient`. A minibatch has a mean posterior of its own.

References
----------
.. [1] Gomes, Krause, Perona, "Discriminative clustering by regularized information maximization", NIPS 2010.
"""
