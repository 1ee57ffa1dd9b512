"""Files that Plica reads and writes: tables of data, data sets and saved models; none of them runs code from a file."""
