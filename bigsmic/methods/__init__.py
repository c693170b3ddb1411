"""The methods of ``bigsmic.fit(method=...)``: modules with a common interface.

::

    Settings            frozen dataclass, a MethodSettings of :mod:`bigsmic.settings`, which declares the options
    admit(settings, given, n_rows, storage_options)      -> settings, side inputs by name; optional
    temporary(settings) names of stages, or how they begin, that are deleted when the fit has ended; optional
    plan(size, settings, limit, n_threads, checkpoints)  -> planning.Plan
    works(plan, settings, rates)        -> work of rows with clear clusters, and with unclear ones, in the units whose
                        seconds :mod:`bigsmic.runtime.duration` has; optional
    run(job)            the stages, each doing what the ledger lacks; ends with ``labels`` and ``posterior``
    summary(job)        JSON-like facts for the diagnostics; ``n_clusters`` where the method has found it
    model(context)      -> callable with ``n_clusters``: scaled rows (b, d) to posteriors (b, c) and labels (b,);
                        ``reads``: stages, and arrays of each, that it reads, which are what a pickle takes along;
                        predictions do not ask for it where all rows are one cluster
    Result              :class:`bigsmic.result.Result`, or a subclass that tells more; what it tells of stages that
                        the model does not read is in ``_tells``, in the form of ``reads``
    pages(result)       what a report says of the method alone: a list of Sections and Findings of
                        :mod:`bigsmic.report`; optional
    sights(result)      what these want of the rows: a list of :class:`bigsmic.views.passes.Sight`, which are found in
                        the one pass that a report makes; optional

A built-in method consists of such a module, its settings in :mod:`bigsmic.settings`, and a line in
`bigsmic.registry.BUILT_IN`. A method of another package is found by an entry point of the group ``bigsmic.methods``,
which refers to its ``Settings``; the rest is in the module that defines them, or that they name as ``home``.
"""
