"""The command `plica` as a program for `spark-submit`, which takes files of Python alone: see docs/scale.md.

spark-submit --master spark://head:7077 examples/on_spark.py score model.plica rows/ -o scores/ --engine spark
"""

from plica.cli.entry import main

if __name__ == "__main__":
    main()
