"""Loop-invariant code: what a loop would compute anew in each iteration from what it captures is computed before it.

    >>> import plica.tracing.namespace as xp
    >>> from plica.ir.types import spec
    >>> from plica.tracing.control import trace_for
    >>> from plica.tracing.trace import trace
    >>> def powers(x, w):
    ...     return trace_for((0, 10, 1), lambda i, a: a * xp.softmax(w), (x,), shared=True)
    >>> print(hoist(trace(powers, spec(3), spec(3))))
    { lambda ; x:f32[3] w:f32[3] . let
        b:f32[3] = softmax[axis=0] w
        a:f32[3] = for_loop[body={ lambda a:f32[3] ; i:i64[] a_1:f32[3] . let
              b:f32[3] = multiply a_1 a
            in (b,) } body_nconsts=1 num_implicit_inputs=0 num_implicit_outputs=0 preserve_dimensions=True] b 0:i64[] 10:i64[] 1:i64[] x
      in (a,) }

A loop may run no iteration, so only operations that never raise are moved out of one. A call within a loop is looked
into first: so the softmax of a circuit's weights is computed once, not in each iteration.
"""
