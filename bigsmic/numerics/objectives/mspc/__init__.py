"""Maximin separation probability: two clusters on the two sides of the hyperplane that separates them most surely.

A labeling is as good as the worst case of the classifier learnt from it. Over all pairs of distributions that have the
means and covariances of its two clusters, the best hyperplane puts at least a share p of both on their own side,

    kappa = max_w  |w'(m_1 - m_0)| / (sqrt(w' S_0 w) + sqrt(w' S_1 w)),        p = kappa^2 / (1 + kappa^2)

and p, the minimum separation probability (MSP), is what the three solvers raise. Every labeling that they meet, the
k-means start included, is a halfspace, and what they need to know of the rows is a sum over them. So a solver is a
generator: it yields a question, a small picklable function of a block of rows, and is sent the sum of the answers::

    splits = solve([split(start, settings) for start in starts], total)

``total(questions)`` makes one pass over the rows, wherever they are, for all problems at once.

References
----------
.. [1] Huang, Zhang, Song, Chen, "Maximin separation probability clustering", AAAI 2015.
.. [2] Lanckriet, El Ghaoui, Bhattacharyya, Jordan, "A robust minimax approach to classification", JMLR 3, 2002.
"""
