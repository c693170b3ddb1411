"""Maximin separation probability: two clusters on both sides of the hyperplane that best separates them.

A labeling is scored by the worst case of the classifier learnt from it. Whatever two distributions have the means and
covariances of its two clusters, the best hyperplane puts at least a share p of each on its own side,

    kappa = max_w  |w'(m_1 - m_0)| / (sqrt(w' S_0 w) + sqrt(w' S_1 w)),        p = kappa^2 / (1 + kappa^2)

and p, the minimum separation probability (MSP), is the objective of the three solvers. Every labeling on the way,
including the k-means start, is a halfspace, and solvers need only sums over rows. So a solver is a generator: it yields
a question, a small picklable function of a block of rows, and receives the sum of the answers::

    splits = solve([split(node, start, settings) for node, start in starts], total)

``total(questions)`` makes one pass over the rows for all problems at once.

References
----------
.. [1] Huang, Zhang, Song, Chen, "Maximin separation probability clustering", AAAI 2015.
.. [2] Lanckriet, El Ghaoui, Bhattacharyya, Jordan, "A robust minimax approach to classification", JMLR 3, 2002.
"""
