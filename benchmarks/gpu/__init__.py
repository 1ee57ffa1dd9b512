"""`python3 -m benchmarks.gpu --out FILE`: Plica checked and measured on a GPU, in 8 minutes, without an installation.

First the device checks: every operation, layer, query, flag and gradient, and the control flow of `plica.jit`, against
the CPU. Then the rates of the machine, and named circuits beside them. Each stage is a process of its own, so that an
error of the device costs one check; every finding is written at once. `README.md` beside this folder says more.
"""
