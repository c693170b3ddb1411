"""Maximum within-cluster association: memberships for which the clusters' Parzen densities overlap least.

With ``G_nm = exp(-|x_n - x_m|^2 / (4 sigma^2))``, the product of two Gaussians of width sigma integrated, and
memberships ``z_in = softmax_i(theta_in)`` that add up to N_i,

    L = sum_i L_i,    L_i = z_i' G z_i / N_i

which is, up to a constant, minus the squared distances of the clusters' densities from that of all rows, weighted by
N_i. The derivative by a membership, and by a logit, are

    a_in = dL/dz_in = (2 [G z_i]_n - L_i) / N_i,       dL/dtheta_in = z_in (a_in - sum_j z_jn a_jn)

G enters only through products with columns, so that it is never held in memory: tiles of a dense one are computed when
they are needed, and a sparse one is read block by block. Steps of several lengths and of several starts share one
product.

References
----------
.. [1] Lee, Choi, "Maximum within-cluster association", Pattern Recognition Letters 26, 2005.
"""
